"""A minimal OAuth 2 server with django-oauth-toolkit.

A permission is a group of Django. The administration API has the requests of Glewlwyd's that tests need, so that one test
fixture administers both. As a program, it creates the database.
"""

import base64
import ctypes
import hashlib
import json
import os
import signal

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application

settings.configure(
    ALLOWED_HOSTS=["127.0.0.1", "localhost"],
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": f"{os.environ['SERVER_HOME']}/database",
            "OPTIONS": {
                "timeout": 30,
                # A transaction that reads first and then writes would fail at once when another one writes.
                "transaction_mode": "IMMEDIATE",
                # A killed process loses nothing that it wrote. Waiting for a busy disk would block all requests.
                "init_command": "PRAGMA synchronous = OFF",
            },
        }
    },
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "oauth2_provider"],
    OAUTH2_PROVIDER={"ACCESS_TOKEN_EXPIRE_SECONDS": 28800, "SCOPES_BACKEND_CLASS": "server.GroupScopes"},
    # The default hashers need half a second of processor time.
    PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
    ROOT_URLCONF="server",
    SECRET_KEY="for-tests-only",
    USE_TZ=True,
)
django.setup()

PR_SET_PDEATHSIG = 1


def end_with_parent():
    """Without it, a worker answers for another second after a kill -9 of the process that started it."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.http import HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404
from django.urls import include, path
from django.views.decorators.csrf import csrf_exempt
from oauth2_provider.models import Application, RefreshToken
from oauth2_provider.scopes import BaseScopes
from oauth2_provider.urls import metadata_urlpatterns


class GroupScopes(BaseScopes):
    """The scopes of a user are the names of its groups."""

    def get_all_scopes(self):
        return {name: name for name in Group.objects.values_list("name", flat=True)}

    def get_available_scopes(self, application=None, request=None, *args, **kwargs):
        user = getattr(request, "user", None)
        if user is None:
            return list(self.get_all_scopes())
        return sorted(user.groups.values_list("name", flat=True))

    get_default_scopes = get_available_scopes


def administration(view):
    def checked(request, *args, **kwargs):
        if request.headers.get("authorization") != f"token {os.environ['ADMIN_KEY']}":
            return HttpResponse(status=401)
        body = json.loads(request.body) if request.body else {}
        return view(request, body, *args, **kwargs) or HttpResponse()

    return csrf_exempt(checked)


def change_user(user, body):
    if "password" in body:
        user.set_password(body["password"])
    user.is_active = body.get("enabled", user.is_active)
    user.save()
    if "scope" in body:
        user.groups.set(Group.objects.filter(name__in=body["scope"]))


@administration
def users(request, body):
    change_user(User.objects.create_user(body["username"], body.get("email")), body)


@administration
def one_user(request, body, name):
    user = get_object_or_404(User, username=name)
    if request.method == "DELETE":
        user.delete()
    else:
        change_user(user, body)


@administration
def scopes(request, body):
    Group.objects.get_or_create(name=body["name"])


def token_hash(token):
    digest = hashlib.sha512(token.encode()).digest()
    return "{SHA512}" + base64.urlsafe_b64encode(digest).decode().rstrip("=")


@administration
def sessions(request, body, wanted_hash=None):
    tokens = RefreshToken.objects.filter(user__username=request.GET["impersonate"])
    if wanted_hash is None:
        return JsonResponse(
            [{"token_hash": token_hash(token.token), "enabled": token.revoked is None} for token in tokens], safe=False)
    found = [token for token in tokens if token.revoked is None and token_hash(token.token) == wanted_hash]
    for token in found:
        token.revoke()
    return HttpResponse(status=200 if found else 404)


urlpatterns = [
    *metadata_urlpatterns,
    path("o/", include("oauth2_provider.urls", namespace="oauth2_provider")),
    path("api/user/", users),
    path("api/user/<str:name>", one_user),
    path("api/scope/", scopes),
    path("api/oidc/token", sessions),
    path("api/oidc/token/<str:wanted_hash>", sessions),
]
application = get_wsgi_application()


def make_database():
    import population

    call_command("migrate", verbosity=0)
    for scope in population.SCOPES:
        Group.objects.create(name=scope)
    for user in population.USERS:
        change_user(User.objects.create_user(user["username"], user["email"]), user)
    for client in population.CLIENTS.values():
        # A hashed secret would need the time of a password hash in every request.
        Application.objects.create(
            client_id=client["id"], client_secret=client["secret"], hash_client_secret=False, name=client["id"],
            client_type=Application.CLIENT_CONFIDENTIAL, authorization_grant_type=Application.GRANT_PASSWORD)


if __name__ == "__main__":
    make_database()
else:
    end_with_parent()
