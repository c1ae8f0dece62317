import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { runTollgate } from './helpers/child.ts'

const dir = mkdtempSync(join(tmpdir(), 'tollgate-commands-'))
t.teardown(() => rmSync(dir, { recursive: true, force: true }))
const config = join(dir, 'tollgate.yaml')
const wallet = '0x1111111111111111111111111111111111111111'

/** Runs a command to its end and reads its JSON lines. */
async function tollgate(...args: readonly string[]) {
  const { code, stdout, stderr } = await runTollgate(t, args).exited
  return {
    code,
    stderr,
    lines: stdout.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line)])),
  }
}

t.test(
  'init writes a commented configuration that only its owner can read, and never over one',
  async (t) => {
    const first = await tollgate('init', '--config', config, '--preset', 'local')
    t.equal(first.code, 0, first.stderr)
    t.match(readFileSync(config, 'utf8'), /^# yaml-language-server: \$schema=file:/)
    t.equal(statSync(config).mode & 0o777, 0o600)
    const again = await tollgate('init', '--config', config)
    t.equal(again.code, 2)
    t.match(again.stderr, /already exists/)
    t.match(
      (await tollgate('init', '--config', join(dir, 'x.yaml'), '--preset', 'nonsense')).stderr,
      /Expected a preset/,
    )
  },
)

t.test(
  'init with a wallet or a name that can not be writes nothing, so that it can be set right',
  async (t) => {
    const file = join(dir, 'right.yaml')
    for (const wrong of [
      ['--store', 'demo', '--base', '0xYourWallet'],
      ['--store', 'D'],
    ]) {
      t.equal((await tollgate('init', '--config', file, ...wrong)).code, 2)
      t.notOk(existsSync(file))
    }
  },
)

t.test('init names what its preset takes from the environment, and opens no store without it', async (t) => {
  const file = join(dir, 'mainnet.yaml')
  const preset = ['init', '--config', file, '--preset', 'base-mainnet']
  const opening = await tollgate(...preset, '--store', 'demo', '--base', wallet)
  t.match([opening.code, opening.stderr], [2, /TOLLGATE_PUBLIC_URL, TOLLGATE_BASE_RPC_URL/])
  t.notOk(existsSync(file), 'the same command, set right, has to go through')
  const written = await tollgate(...preset)
  t.match(written.lines, [
    { missing: ['TOLLGATE_PUBLIC_URL', 'TOLLGATE_BASE_RPC_URL', 'TOLLGATE_FACILITATOR_EVM_KEY'] },
  ])
})

t.test('check shows the program of each kind of link, and leaves nothing behind', async (t) => {
  writeFileSync(config, 'publicUrl: http://127.0.0.1:8080\n')
  const { code, lines, stderr } = await tollgate('check', '--config', config)
  t.equal(code, 0, stderr)
  const programs = lines.map((l) => l.pipeline.map((s: { plugin: string }) => s.plugin))
  t.strictSame(
    programs[0],
    ['rate-limit', 'upstream', 'health', 'upstream', 'upstream'],
    'a free link pays for nothing else',
  )
  t.strictSame(programs[1].slice(0, 9), [
    ...['rate-limit', 'upstream', 'x402', 'replay-guard', 'upstream', 'x402', 'health'],
    ...['replay-guard', 'upstream'],
  ])
  t.notOk(existsSync(join(dir, 'data')), 'no database, no secret')
})

t.test('check names the file, the line and the near miss of a wrong option', async (t) => {
  const wrong = join(dir, 'wrong.yaml')
  writeFileSync(
    wrong,
    'publicUrl: http://127.0.0.1:8080\nplugins:\n  - use: rate-limit\n    with: { windwMs: 5 }\n',
  )
  const { code, stderr } = await tollgate('check', '--config', wrong)
  t.equal(code, 2)
  t.match(stderr, /wrong\.yaml:4/)
  t.match(stderr, /Did you mean windowMs\?/)
})

t.test('check refuses plugins in an order that cannot work, by their names', async (t) => {
  const wrong = join(dir, 'order.yaml')
  const plugins = ['purchase-record', 'upstream', 'x402'].map((use) => `  - use: ${use}`).join('\n')
  writeFileSync(wrong, `publicUrl: http://127.0.0.1:8080\nplugins:\n${plugins}\n`)
  const { code, stderr } = await tollgate('check', '--config', wrong)
  t.not(code, 0)
  t.match(stderr, /x402 reads claim in phase verify/)
})

t.test('a backup holds what was there when it was written, and restores it', async (t) => {
  const first = await tollgate('store', 'create', 'kept', '--base', wallet, '--config', config)
  t.match(first.lines[0], { username: 'kept', apiKey: /^tg_live_/ })
  const copy = join(dir, 'copy.db')
  t.equal((await tollgate('backup', copy, '--config', config)).code, 0)
  const nowhere = await tollgate('backup', join(dir, 'gone', 'copy.db'), '--config', config)
  t.match(nowhere, { code: 1, stderr: /Expected a folder for the backup at .*gone, found none/ })
  await tollgate('store', 'create', 'later', '--config', config)
  const refused = await tollgate('restore', copy, '--config', config)
  t.equal(refused.code, 2, 'not over a database without being told to')
  t.equal((await tollgate('restore', copy, '--config', config, '--force')).code, 0)
  t.equal((await tollgate('store', 'create', 'later', '--config', config)).code, 0, 'the later store is gone')
  const taken = await tollgate('store', 'create', 'kept', '--config', config)
  t.equal(taken.code, 1, 'the earlier one is there')
  t.match(taken.lines[0].error.code, 'USERNAME_TAKEN')
})

t.test('a database that is not there is not backed up', async (t) => {
  const mistyped = join(dir, 'mistyped.yaml')
  writeFileSync(mistyped, `publicUrl: http://127.0.0.1:8080\nstorage:\n  path: ${join(dir, 'no.db')}\n`)
  const copy = join(dir, 'nothing.db')
  const { code, stderr } = await tollgate('backup', copy, '--config', mistyped)
  t.equal(code, 2)
  t.match(stderr, /Expected a database at .*no\.db/)
  t.notOk(existsSync(copy))
  t.notOk(existsSync(join(dir, 'no.db')), 'and none is made')
})

t.test('a username or wallet that cannot be is refused before anything is opened', async (t) => {
  for (const args of [['UPPER'], ['api'], ['fine', '--base', '0x12'], ['fine', '--solana', wallet]]) {
    const { code, stderr } = await tollgate('store', 'create', ...args, '--config', config)
    t.equal(code, 2, args.join(' '))
    t.match(stderr, /Expected|reserved/)
  }
})

t.test("the operator sets a store's wallets, each chain by itself", async (t) => {
  const store = (...args: string[]) => tollgate('store', ...args, '--config', config)
  await store('create', 'paid', '--base', wallet)
  const other = `0x${'12'.repeat(20)}`
  const set = await store('payout', 'paid', '--base', other)
  t.equal(set.code, 0, set.stderr)
  t.match(set.lines[0], {
    username: 'paid',
    was: { base: /^0x/, solana: null },
    payout: { base: other, solana: null },
  })
  const none = await store('payout', 'paid', '--base', 'none')
  t.match(none.lines[0], { was: { base: other }, payout: { base: null, solana: null } })
  for (const args of [
    ['nobody', '--base', wallet],
    ['paid'],
    ['paid', '--base', '0x12'],
    ['paid', '--solana', wallet],
  ]) {
    const { code, stderr } = await store('payout', ...args)
    t.equal(code, 2, args.join(' '))
    t.match(stderr, /Expected/)
  }
})

t.test('link add without a key or a gateway says what is missing', async (t) => {
  const noKey = await tollgate('link', 'add', 'https://api.example.com/')
  t.equal(noKey.code, 2)
  t.match(noKey.stderr, /TOLLGATE_API_KEY/)
  // A URL as well, of the scheme `localhost:`.
  const noScheme = await tollgate('link', 'add', 'localhost:3000/weather')
  t.match([noScheme.code, noScheme.stderr], [2, /Expected an address such as https:/])
})
