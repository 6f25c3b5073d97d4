module example.test/authgateway

go 1.22
