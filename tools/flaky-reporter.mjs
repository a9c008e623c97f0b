/** A vitest reporter that lists, after a run, the tests that passed only on a retry. */

/** @param {readonly { readonly file: string; readonly name: string }[]} tests */
export function describeFlaky(tests) {
  return tests.map(({ file, name }) => `flaky: ${file} > ${name}`)
}

// Vitest requires a default export of a reporter that it loads by path.
// oxlint-disable-next-line import/no-default-export
export default class FlakyReporter {
  onTestRunEnd(modules) {
    const flaky = modules.flatMap((module) =>
      [...module.children.allTests()]
        .filter((test) => test.diagnostic()?.flaky === true)
        .map((test) => ({ file: module.relativeModuleId, name: test.fullName })),
    )
    if (flaky.length > 0) console.log(`\n${describeFlaky(flaky).join('\n')}`)
  }
}
