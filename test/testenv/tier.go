package testenv

// Build tags select the tests that need much time or another program. A test that is not selected is not in the test program, so no
// test has to skip itself. "make test" sets none of these:
//
//   - mongodb: tests that need the MongoDB server of FANMAIL_TEST_MONGODB_URI. test/services/withmongodb sets it.
//   - mongod: tests that start a MongoDB server of their own and kill it. test/services/withmongodb sets it if there is such a program.
//   - long: tests of whole programs, every failpoint, models, and many more random runs. "make test-nightly" sets it, and .ci/run for kill -9.
//   - hosttools: tests that need promtool, bash, curl, openssl, Python, Node.js, or root on Debian. "make test-nightly" sets it.
//   - mutate: the mutations of test/mutation, which change the code to see a test fail. "make test-nightly" sets it.
//
// A file whose tests all need a tag has it as its build constraint. A test with a variant that needs one reads Long or OnMongoDB.
