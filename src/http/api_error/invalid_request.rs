//! Why a request is refused with 400 `invalid_request`.

use thiserror::Error;

/// Why a request is invalid, for the client. It has the name of the member and never its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidRequest {
    /// Queries, which may contain credentials, are logged (RFC 6750 section 2.3).
    #[error("A query is not allowed here.")]
    Query,
    /// The connection ended before the body did.
    #[error("The body is incomplete.")]
    Incomplete,
    /// RFC 9112 section 7.1.
    #[error("The chunks of the body are malformed.")]
    Chunks,
    /// RFC 8259 section 8.1.
    #[error("The body is not text in UTF-8.")]
    NotUtf8,
    /// Another JSON value than an object.
    #[error("The body is not a JSON object.")]
    NotAnObject,
    /// RFC 8259.
    #[error("The body is not valid JSON.")]
    NotJson,
    /// A required member is missing.
    #[error("The member `{0}` is missing.")]
    Missing(&'static str),
    /// A member of another type, `null` included.
    #[error("The member `{0}` must be a string.")]
    NotAString(&'static str),
    /// A member with the one value `true`.
    #[error("The member `{0}` must be true.")]
    NotTrue(&'static str),
    /// A misspelt member could change what a request does. Its name is that of the client, so it is not
    /// repeated.
    #[error("The body has an unknown member.")]
    UnknownMember,
    /// None or several of members of which a request has one.
    #[error("The body must have exactly one of the members {0}.")]
    NotExactlyOne(&'static str),
    /// Two members of which a request has at most one.
    #[error("The members `{0}` and `{1}` cannot be combined.")]
    NotTogether(&'static str, &'static str),
    /// A repeated member is ambiguous.
    #[error("The member `{0}` appears more than once.")]
    Repeated(&'static str),
    /// A value is never truncated.
    #[error("The member `{member}` is longer than {bytes_max} bytes.")]
    TooLong {
        /// The member.
        member: &'static str,
        /// The greatest length in bytes.
        bytes_max: usize,
    },
    /// Not exactly one `@` with something on both sides, or a control character.
    #[error("The member `{0}` is not an e-mail address.")]
    NotAnEmailAddress(&'static str),
    /// Neither an IPv4 nor an IPv6 address.
    #[error("The member `{0}` is not an IP address.")]
    NotAnIpAddress(&'static str),
    /// Not in the format of session ids.
    #[error("The member `{0}` is not a session id.")]
    NotASessionId(&'static str),
    /// A text of no characters.
    #[error("The member `{0}` must not be empty.")]
    Empty(&'static str),
    /// A text with a control character.
    #[error("The member `{0}` has a control character.")]
    ControlCharacter(&'static str),
    /// The IAM of the domain of the e-mail address does not have what the member is for.
    #[error("The member `{0}` is not supported by the IAM of this domain.")]
    Unsupported(&'static str),
    /// The settings have no IAM of this name.
    #[error("The member `{0}` is not the name of a configured IAM.")]
    UnknownIam(&'static str),
    /// No IAM of the settings can have a subject with this beginning.
    #[error("The member `{0}` begins with no `subject_prefix` of a configured IAM.")]
    UnknownPrefix(&'static str),
    /// Not a time, or without a UTC offset.
    #[error("The member `{0}` is not a time with an offset, such as 2030-01-31T12:00:00Z.")]
    NotATime(&'static str),
    /// Sessions that do not exist yet cannot be revoked.
    #[error("The member `{0}` is in the future.")]
    InTheFuture(&'static str),
    /// A form without this parameter.
    #[error("The parameter `{0}` is missing.")]
    MissingParameter(&'static str),
    /// A form with more than one of this parameter.
    #[error("The parameter `{0}` appears more than once.")]
    RepeatedParameter(&'static str),
    /// The input is not HTTP.
    #[error("The request is not a valid HTTP/1.1 request.")]
    NotHttp,
}
