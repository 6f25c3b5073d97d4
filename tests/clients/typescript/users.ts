// Creates a user of the mock with attributes and reads it back, with the generated client: node users.js MANAGEMENT_URL
import { Configuration, UsersApi } from './control/index.js';

const users = new UsersApi(new Configuration({ basePath: process.argv[2] }));
const email = 'carol@example.test';
const attributes = {
  address: { country: 'PT' }, department: 'sales', level: 7, staff: true, teams: ['blue', 'green'],
};
await users.createUser({ newUser: { email, password: 'carol-pass', attributes } });
const user = await users.showUser({ email });
const sorted = Object.keys(user.attributes).sort().map((name) => [name, user.attributes[name]]);
console.log(JSON.stringify(Object.fromEntries(sorted)));
