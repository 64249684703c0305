// What runs in the pods of the end-to-end tests.
module fairlead.test/pod

go 1.24
