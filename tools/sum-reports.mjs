/** `node tools/sum-reports.mjs <report>…`: prints how many tests passed and failed in total. */
import { readFileSync } from 'node:fs'

const reports = process.argv.slice(2).map((path) => JSON.parse(readFileSync(path, 'utf8')))
const sumOf = (count) => reports.reduce((sum, report) => sum + report[count], 0)
console.log(`${sumOf('numPassedTests')} passed, ${sumOf('numFailedTests')} failed`)
