/** Builds once before the tests: examples and docs run against the built packages. */
import { execFileSync } from 'node:child_process'

export function setup(): void {
  execFileSync('npm', ['run', '--silent', 'build'], { stdio: ['ignore', 'inherit', 'inherit'] })
}
