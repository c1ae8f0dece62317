// What runs the tests must not call anything passed that did not pass.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'

const root = resolve(import.meta.dirname, '..')

/** Runs files of these texts, and gives the exit status and what it said. */
function runOf(t: Test, texts: Record<string, string>, ...args: string[]) {
  const folder = t.testdir(texts)
  const files = Object.keys(texts).map((name) => relative(root, join(folder, name)))
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [join(root, 'test/run.ts'), ...args, ...files],
    {
      encoding: 'utf8',
    },
  )
  return { status, output: stdout + stderr, files }
}

const passing = "import t from 'tap'\nt.test('holds', async (t) => { t.ok(1); t.ok(2) })\n"
const failing = "import t from 'tap'\nt.test('breaks', async (t) => { t.ok(1); t.equal(1, 2) })\n"

t.test('files that pass are added up, and what they said is kept', async (t) => {
  const { status, output, files } = runOf(t, { 'a.test.ts': passing, 'b.test.ts': passing })
  t.equal(status, 0)
  t.match(output, /^# \{ total: 4, pass: 4 \}$/m)
  for (const file of files) {
    t.match(readFileSync(join(root, '.tap/test-results', `${file}.tap`), 'utf8'), /^ok 1 - holds/m)
  }
})

t.test('one assertion that fails, fails the run, and is shown with what was expected', async (t) => {
  const { status, output, files } = runOf(t, { 'good.test.ts': passing, 'bad.test.ts': failing })
  t.equal(status, 1)
  t.match(output, /^# \{ total: 4, pass: 3, fail: 1 \}$/m)
  t.match(output, /not ok 1 - breaks|not ok 2 - should be equal/)
  t.match(output, /^\s+-1\n\s+\+2$|compare: ===/m)
  t.match(output, `failed: ${files[1]}`)
})

t.test('as many files run at once as --jobs says', async (t) => {
  // Each ends when all three have begun.
  const meeting = [
    "import { readdirSync, writeFileSync } from 'node:fs'",
    "import { setTimeout as sleep } from 'node:timers/promises'",
    passing,
    "writeFileSync(`${import.meta.filename}.begun`, '')",
    "while (readdirSync(import.meta.dirname).filter((name) => name.endsWith('.begun')).length < 3) await sleep(50)",
  ].join('\n')
  const texts = { 'a.test.ts': meeting, 'b.test.ts': meeting, 'c.test.ts': meeting }
  const { status, output } = runOf(t, texts, '--jobs', '3')
  t.equal(status, 0)
  t.match(output, /^3 files took .* the cores were idle for \d+ % of the run; the longest:$/m)
  t.match(output, /^# \{ total: 6, pass: 6 \}$/m)
})

t.test('what is ended takes along the files that it runs, also one that computes for ever', async (t) => {
  const busy =
    "import { writeFileSync } from 'node:fs'\nwriteFileSync(`${import.meta.filename}.pid`, `${process.pid}`)\nfor (;;) ;\n"
  const file = join(t.testdir({ 'busy.test.ts': busy }), 'busy.test.ts')
  const child = spawn(process.execPath, [join(root, 'test/run.ts'), relative(root, file)])
  while (!existsSync(`${file}.pid`) || readFileSync(`${file}.pid`, 'utf8') === '') await sleep(50)
  const pid = Number(readFileSync(`${file}.pid`, 'utf8'))
  child.kill('SIGTERM')
  await once(child, 'exit')
  t.equal(child.signalCode, 'SIGTERM')
  while (isAlive(pid)) await sleep(50)
})

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

// What ends without having said how it went, however friendly its exit status.
const silent: Record<string, string> = {
  'does not parse': 'const = 1',
  'asserts nothing': "import 'tap'\n",
  'never loads the runner': 'process.exit(0)\n',
  'leaves in the middle with status 0': `${passing}t.test('more', async () => process.reallyExit(0))\n`,
  'has tests that pass and is killed': `${passing}t.test('more', async () => process.kill(process.pid, 'SIGKILL'))\n`,
  'has tests that pass and throws later': `${passing}t.test('more', async () => { setImmediate(() => { throw new Error('late') }) })\n`,
  'prints the figures of a good run and leaves': "console.log('# { total: 9, pass: 9 }')\nprocess.exit(3)\n",
  'plans more than it does': "import t from 'tap'\nt.plan(2)\nt.ok(1)\n",
}

t.test('a file that does not end as a whole fails the run', async (t) => {
  for (const [what, text] of Object.entries(silent)) {
    await t.test(what, async (t) => {
      const { status, output } = runOf(t, { 'odd.test.ts': text })
      t.equal(status, 1)
      t.match(output, /^# \{ total: \d+, pass: \d+, fail: [1-9]\d* \}$/m)
    })
  }
})

t.test('a file that never gives way is killed', async (t) => {
  const blocked = `${passing}Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)\n`
  const { status, output } = runOf(t, { 'blocked.test.ts': blocked }, '--timeout', '1')
  t.equal(status, 1)
  t.match(output, /blocked\.test\.ts: it was ended by SIGKILL/)
  t.match(output, /, fail: 1 \}$/m)
})

t.test('what was skipped is named, and a file that is not there stops the run', async (t) => {
  const skipping = `${passing}t.test('needs a service', { skip: 'no redis-server here' }, async () => {})\n`
  const { status, output } = runOf(t, { 'a.test.ts': skipping })
  t.equal(status, 0)
  t.match(output, /^skipped: .*a\.test\.ts: ok 2 - needs a service # SKIP no redis-server here/m)
  t.equal(
    spawnSync(process.execPath, [join(root, 'test/run.ts'), 'test/run.ts', 'no/such.test.ts']).status,
    1,
  )
})
