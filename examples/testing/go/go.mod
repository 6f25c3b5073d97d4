module example.test/testing

go 1.22
