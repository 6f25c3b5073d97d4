"""Creates a user of the mock with attributes and reads it back, with the generated client: users.py MANAGEMENT_URL"""

import json
import sys

from mock_control import ApiClient, Configuration, NewUser, UsersApi

ATTRIBUTES = {
    "department": "sales", "level": 7, "staff": True, "teams": ["blue", "green"], "address": {"country": "PT"},
}


def main(url):
    users = UsersApi(ApiClient(Configuration(host=url)))
    users.create_user(NewUser(email="carol@example.test", password="carol-pass", attributes=ATTRIBUTES))
    print(json.dumps(users.show_user("carol@example.test").attributes, sort_keys=True, separators=(",", ":")))


if __name__ == "__main__":
    main(sys.argv[1])
