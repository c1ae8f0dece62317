import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import t from 'tap'

const bin = fileURLToPath(new URL('./bin.js', import.meta.url))
/**
 * Sends the signal to the process that runs the program, then reports whether it handles it and listens for a
 * debugger.
 */
const probe = `import { url } from 'node:inspector'
import { readFileSync } from 'node:fs'
const isProgram = process.execArgv.includes('--max-semi-space-size=16')
if (isProgram) process.kill(process.pid, 'SIGUSR1')
const caught = BigInt('0x' + /SigCgt:\\s+(\\w+)/.exec(readFileSync('/proc/self/status', 'utf8'))[1])
if (isProgram) console.error('caught ' + ((caught >> 9n) & 1n) + ', listens ' + url())`

t.test('SIGUSR1 opens no debugger', { skip: process.platform !== 'linux' && 'reads /proc' }, async (t) => {
  const options = `--import=data:text/javascript,${encodeURIComponent(probe)}`
  const child = spawn(process.execPath, [bin, '--version'], {
    env: { ...process.env, NODE_OPTIONS: options },
  })
  let output = ''
  child.stderr.on('data', (data: Buffer) => (output += data))
  const [code] = await new Promise<[number | null]>((resolve) =>
    child.once('close', (status) => resolve([status])),
  )
  t.equal(output, 'caught 0, listens undefined\n')
  t.equal(code, 0)
})
