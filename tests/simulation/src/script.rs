//! Runs the Lua scripts of the gateway, as Redis does.

use std::cell::RefCell;
use std::collections::HashMap;

use mlua::{Function, Lua, LuaString, Result, Value, Variadic};

use crate::redis::Server;
use crate::resp::Reply;

/// An interpreter, and the scripts that it has compiled.
#[derive(Debug)]
pub(crate) struct Scripts {
    lua: Lua,
    compiled: HashMap<Vec<u8>, Function>,
}

impl Scripts {
    pub(crate) fn new() -> Self {
        let lua = Lua::new();
        let library = lua.create_table().expect("a table");
        let unpack = lua.create_function(unpack).expect("a function");
        library.set("unpack", unpack).expect("a member");
        lua.globals().set("struct", library).expect("a global");
        Self {
            lua,
            compiled: HashMap::new(),
        }
    }

    /// `EVAL`: the script, the number of keys, the keys and the other arguments.
    pub(crate) fn eval(&mut self, server: &mut Server, arguments: &[Vec<u8>]) -> Reply {
        let [script, count, rest @ ..] = arguments else {
            panic!("no script");
        };
        let script = self.compiled.entry(script.clone()).or_insert_with(|| {
            let chunk = self.lua.load(script.as_slice());
            chunk.into_function().expect("a valid script")
        });
        let count: usize = String::from_utf8_lossy(count).parse().expect("a number");
        let (keys, others) = rest.split_at(count);
        let lua = &self.lua;
        let list = |of: &[Vec<u8>]| {
            let strings = of.iter().map(|text| lua.create_string(text));
            let strings: Vec<_> = strings.collect::<Result<_>>().expect("memory");
            lua.create_sequence_from(strings).expect("memory")
        };
        lua.globals().set("KEYS", list(keys)).expect("a global");
        lua.globals().set("ARGV", list(others)).expect("a global");
        let server = RefCell::new(server);
        let result = lua.scope(|scope| {
            let call = |lua: &Lua, parts: Variadic<Value>| {
                let parts = parts.iter().map(|part| lua.coerce_string(part.clone()));
                let parts: Vec<_> = parts.collect::<Result<_>>()?;
                let parts = parts.into_iter().map(|part| part.expect("a string"));
                let parts: Vec<Vec<u8>> = parts.map(|part| part.as_bytes().to_vec()).collect();
                to_lua(lua, server.borrow_mut().execute(&parts))
            };
            let redis = lua.create_table()?;
            redis.set("call", scope.create_function(call)?)?;
            redis.set("pcall", scope.create_function(call)?)?;
            lua.globals().set("redis", redis)?;
            script.call::<Value>(())
        });
        to_reply(&result.unwrap_or_else(|error| panic!("a script fails: {error}")))
    }
}

/// `struct.unpack` with the only format that the scripts use.
#[expect(
    clippy::unnecessary_wraps,
    reason = "the signature of a function for Lua"
)]
fn unpack(_: &Lua, (format, text): (LuaString, LuaString)) -> Result<(f64, f64)> {
    assert_eq!(&*format.as_bytes(), b">BI8", "a known format");
    let text = text.as_bytes();
    let number = u64::from_be_bytes(text[1..9].try_into().expect("eight bytes"));
    #[expect(clippy::cast_precision_loss, reason = "as Lua does")]
    Ok((f64::from(text[0]), number as f64))
}

fn to_lua(lua: &Lua, reply: Reply) -> Result<Value> {
    Ok(match reply {
        Reply::Number(number) => Value::Integer(number),
        Reply::Bulk(bytes) => Value::String(lua.create_string(bytes)?),
        Reply::Array(items) => {
            let items = items.into_iter().map(|item| to_lua(lua, item));
            let items: Vec<_> = items.collect::<Result<_>>()?;
            Value::Table(lua.create_sequence_from(items)?)
        }
        Reply::Ok | Reply::Map(_) | Reply::Error(_) => Value::Table(lua.create_table()?),
    })
}

fn to_reply(value: &Value) -> Reply {
    match value {
        Value::Integer(number) => Reply::Number(*number),
        #[expect(clippy::cast_possible_truncation, reason = "as Redis does")]
        Value::Number(number) => Reply::Number(*number as i64),
        Value::String(text) => Reply::Bulk(text.as_bytes().to_vec()),
        Value::Table(items) => {
            let items = items.sequence_values::<Value>();
            Reply::Array(
                items
                    .map(|item| to_reply(&item.expect("a value")))
                    .collect(),
            )
        }
        other => panic!("a script returns {other:?}"),
    }
}
