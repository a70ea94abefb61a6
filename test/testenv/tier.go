package testenv

// Build tags select the tests that need much time or another program. A test that is not selected is not in the test program, so no
// test has to skip itself. "make test" sets the tags of the programs that it finds, "make test-all" sets all of these:
//
//   - long: tests of whole programs that take minutes, and every failpoint. They need a C compiler.
//   - mongodb: tests that need the MongoDB server of FANMAIL_TEST_MONGODB_URI. test/services/withmongodb sets it.
//   - mongod: tests that start a MongoDB server of their own and kill it. test/services/withmongodb sets it if there is such a program.
//   - hosttools: tests that need promtool, bash, curl, openssl, Python, Node.js, or root on Debian.
//
// "make test-all" does not set the tag mutate: the mutations of test/mutation, which change the code to see a test fail.
//
// A file whose tests all need a tag has it as its build constraint. A test with a variant that needs one reads Long or OnMongoDB.
