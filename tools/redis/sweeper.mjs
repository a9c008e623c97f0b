/**
 * Ends what a process leaves behind, however it ends: a handler of its own would not run where it
 * is killed. A shell waits for the end of its input, which comes with the end of this process, and
 * then kills the servers and removes the folders it was told of.
 */
import { spawn } from 'node:child_process'
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Nothing but its input ends it: a terminal's Ctrl-C reaches every process that it started. */
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
    // Without its shell the process still works; it only is not swept after.
    shell.on('error', () => {})
    shell.stdin.on('error', () => {})
  }
  shell.stdin.write(`${what} ${value}\n`)
}

export function sweepServer(pid) {
  send('server', pid)
}

/** Its id may soon belong to another process. */
export function serverEnded(pid) {
  send('ended', pid)
}

/** A folder of its own, removed with this process at the latest. */
export function makeFolder(prefix = 'sluice-redis-') {
  const folder = mkdtempSync(join(tmpdir(), prefix))
  send('folder', folder)
  return folder
}
