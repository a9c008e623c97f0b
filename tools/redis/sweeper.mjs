/**
 * Removes what this process leaves behind, however it ends: an exit handler would not run after a
 * kill. A shell waits for the end of its input, which closes with this process, and then kills the
 * registered servers and removes the registered folders.
 */
import { spawn } from 'node:child_process'
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Only the end of its input ends it: Ctrl-C reaches every process of a terminal. */
const SCRIPT = `trap '' INT TERM HUP
servers=' ' folders=''
while read -r what value; do
  case $what in
    server) servers="$servers$value " ;;
    ended) servers="\${servers%% $value *} \${servers#* $value }" ;;
    folder) folders="$folders$value
" ;;
  esac
done
for server in $servers; do kill -9 "$server" 2>/dev/null; done
printf '%s' "$folders" | while read -r folder; do rm -rf "$folder"; done`

let shell

function send(what, value) {
  if (shell === undefined) {
    shell = spawn('/bin/sh', ['-c', SCRIPT], {
      detached: true,
      cwd: '/',
      stdio: ['pipe', 'ignore', 'ignore'],
    })
    shell.unref()
    shell.stdin.unref()
    // Without the shell this process still works, but nothing cleans up after it.
    shell.on('error', () => {})
    shell.stdin.on('error', () => {})
  }
  shell.stdin.write(`${what} ${value}\n`)
}

export function sweepServer(pid) {
  send('server', pid)
}

/** Unregisters a process: its id may soon belong to another one. */
export function serverEnded(pid) {
  send('ended', pid)
}

/** Creates a folder that is removed with this process at the latest. */
export function makeFolder(prefix = 'sluice-redis-') {
  const folder = mkdtempSync(join(tmpdir(), prefix))
  send('folder', folder)
  return folder
}
