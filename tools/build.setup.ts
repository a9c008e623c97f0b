/** Builds once before the tests: examples and documents run against what users would install. */
import { execFileSync } from 'node:child_process'

export function setup(): void {
  execFileSync('npm', ['run', '--silent', 'build'], { stdio: ['ignore', 'inherit', 'inherit'] })
}
