# The scopes of a user: those of the subject, of the groups, and of everybody at the IAM.
package gateway

default_scopes := {scope | some scope in data.permissions.iams[input.iam]}

subject_scopes := {scope | some scope in data.permissions.subjects[input.subject]}

group_scopes := {scope |
	some group in input.groups
	some scope in data.permissions.groups[group]
}

scopes := default_scopes | subject_scopes | group_scopes
