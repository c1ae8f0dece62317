import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync, openSync } from 'node:fs'
import t from 'tap'

const createLog = new URL('./createLog.ts', import.meta.url).href

/** A program that writes a line to its log, and then has work to do. */
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
