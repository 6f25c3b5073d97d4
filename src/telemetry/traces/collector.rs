//! The receiver of spans: OTLP over HTTP with protobuf.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use iam_adapters::Clock;
use iam_adapters::client::{ClientError, ClientSettings, UpstreamClient};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message as _;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::time::timeout;
use url::Url;

use crate::config::TraceSettings;

/// A client of the receiver.
pub(crate) struct Collector {
    client: UpstreamClient,
    url: Url,
    headers: Vec<(String, SecretString)>,
    deadline: Duration,
}

impl Collector {
    /// A client; does not connect. `None` if traces are off.
    pub(crate) fn new(
        settings: &TraceSettings,
        clock: Arc<dyn Clock>,
    ) -> Result<Option<Self>, ClientError> {
        let Some(url) = settings.url() else {
            return Ok(None);
        };
        let client = ClientSettings {
            connect_deadline: settings.timeout,
            ca_file: settings.ca_file.clone(),
        };
        Ok(Some(Self {
            client: UpstreamClient::new(&client, clock)?,
            url,
            // The settings were checked when they were read.
            headers: settings.header_list().unwrap_or_default(),
            deadline: settings.timeout,
        }))
    }

    /// Sends an export; returns the number of spans that were rejected, or why nothing was accepted.
    pub(super) async fn send(&self, body: Vec<u8>) -> Result<u64, String> {
        let mut request = self.client.post(&self.url).body(body);
        request = request.header("content-type", "application/x-protobuf");
        for (name, value) in &self.headers {
            request = request.header(name, value.expose_secret());
        }
        let response = match timeout(self.deadline, self.client.send(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(fault)) => return Err(fault.about("the Collector").to_string()),
            Err(_) => return Err("the Collector did not respond in time".to_owned()),
        };
        if !response.status.is_success() {
            return Err(format!("the Collector returned {}", response.status));
        }
        let decoded = ExportTraceServiceResponse::decode(&*response.body).unwrap_or_default();
        let partial = decoded.partial_success.unwrap_or_default();
        Ok(u64::try_from(partial.rejected_spans).unwrap_or_default())
    }
}

/// Without the headers, which are secrets.
impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collector")
            .field("host", &self.url.host_str())
            .finish_non_exhaustive()
    }
}
