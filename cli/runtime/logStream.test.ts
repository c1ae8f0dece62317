import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync, openSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import t from 'tap'

const createLog = new URL('./createLog.ts', import.meta.url).href

/** A program that writes a line to its log, then has work to do. */
const program = `
  const { createLog } = await import(${JSON.stringify(createLog)})
  const log = createLog({ level: 'info', format: 'json' })
  for (let i = 0; i < 3; i++) {
    log.info({}, 'a line')
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  process.exit(42)
`

t.test(
  'a log on a full disk does not end the process',
  {
    skip: !existsSync('/dev/full') && 'no /dev/full here',
  },
  async (t) => {
    const full = openSync('/dev/full', 'w')
    const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
      stdio: ['ignore', 'ignore', full],
    })
    closeSync(full)
    const [code] = await once(child, 'exit')
    t.equal(code, 42, 'it goes on with its work')
  },
)

t.test('whoever reads the log may end, and the process goes on', async (t) => {
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  child.stderr.destroy()
  const [code] = await once(child, 'exit')
  t.equal(code, 42, 'it goes on with its work')
})

t.test('a reader of the log that has stopped costs bounded memory, and is told what it missed', async (t) => {
  const flood = `
    const { createLog } = await import(${JSON.stringify(createLog)})
    const log = createLog({ level: 'info', format: 'json' })
    const padding = 'x'.repeat(1_000)
    for (let i = 0; i < 40_000; i++) log.info({ padding }, 'a line')
    process.stdin.once('data', () => process.stdin.destroy())
    console.log(process.stderr.writableLength)
  `
  const child = spawn(process.execPath, ['--input-type=module', '-e', flood], { stdio: 'pipe' })
  const [unwritten] = await once(child.stdout, 'data')
  t.ok(Number(unwritten) < 10_000_000, `${String(unwritten).trim()} bytes of 40 MB wait for the reader`)
  child.stdin.write('go on')
  const lines = (await text(child.stderr)).trimEnd().split('\n')
  const last = JSON.parse(lines.at(-1)!)
  t.match(last, { level: 'warn', dropped: Number })
  t.equal(lines.length - 1 + last.dropped, 40_000, 'every line was written or is counted')
})
