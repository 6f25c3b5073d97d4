"""The entries that the directories of the live tests begin with: those of realm.json, as LDIF."""

import population

BASE = "dc=example,dc=test"
SERVICE = f"cn=gateway,ou=services,{BASE}"
SERVICE_PASSWORD = "for-tests-only-service"
FOLDERS = ("people", "services", "groups", "policies", "hidden")


def entries(of_base="", disabled=""):
    """LDIF of all entries. `of_base` and `disabled` are further lines of the base, and of a disabled user."""
    found = [f"dn: {BASE}\nobjectClass: domain\ndc: example\n{of_base}"]
    found += [f"dn: ou={name},{BASE}\nobjectClass: organizationalUnit\nou: {name}\n" for name in FOLDERS]
    found.append(f"dn: {SERVICE}\nobjectClass: person\ncn: gateway\nsn: gateway\nuserPassword: {SERVICE_PASSWORD}\n")
    for user in population.USERS:
        email = user["email"]
        found.append(
            f"dn: uid={email},ou=people,{BASE}\nobjectClass: inetOrgPerson\nuid: {email}\ncn: {email}\nsn: {email}\n"
            f"mail: {email}\nuserPassword: {user['password']}\n{'' if user['enabled'] else disabled}"
        )
    for scope in population.SCOPES:
        members = [f"member: uid={user['email']},ou=people,{BASE}\n" for user in population.USERS if scope in user["scope"]]
        if members:
            found.append(f"dn: cn={scope},ou=groups,{BASE}\nobjectClass: groupOfNames\ncn: {scope}\n" + "".join(members))
    return "\n".join(found)
