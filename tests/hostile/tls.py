run=pipelining=direct=through_nginx=through_haproxy=http2=descriptors=log=memory=None
