import { spawn } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { ask, createVaultBox } from '../../test/helpers/cli/vault/vaultProcess.ts'
import { mnemonic } from '../../test/helpers/vault/startVault.ts'

const main = fileURLToPath(new URL('../main.ts', import.meta.url))

/** Characters that act on a terminal instead of being visible. */
const dangerous = /(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u

t.test('a vault is made, run and used without a person', async (t) => {
  const box = createVaultBox(t)
  const wordsFile = join(box.home, '..', 'words')
  writeFileSync(wordsFile, `${mnemonic}\n`, { mode: 0o600 })
  const made = await box.json(['init', ...box.withPassword, '--mnemonic-file', wordsFile])
  t.strictSame(made.addresses, {
    evm: '0x9858EfFD232B4033E47d90003D41EC34EcaEda94',
    solana: 'HAgk14JpMQLgt6rVgv7cBQFJWFto5Dqxi472uT3DKpqk',
  })
  t.notOk('mnemonic' in made, 'words that were brought are not printed')
  t.equal(statSync(box.home).mode & 0o777, 0o700)
  const twice = await box.run(['init', ...box.withPassword])
  t.match([twice.status, twice.stdout], [1, /VAULT_EXISTS/])

  const added = await box.json([
    'agents',
    'add',
    'bot',
    '--scopes',
    'identity.name,wallet.base',
    ...box.withPassword,
  ])
  t.match(added.token, /^vat_/)
  const vault = await box.serve()
  t.equal((await ask(vault.url, added.token, '/address/base'))?.body.address, made.addresses.evm)
  t.equal((await box.json(['status'])).locked, false)
  t.match(await box.json(['put', 'identity.name'], 'Ada\n'), { scope: 'identity.name', created: true })
  const read = { scope: 'identity.name', agent_name: 'bot' }
  t.strictSame((await ask(vault.url, added.token, '/v1/vault/read', read))?.body, { value: 'Ada' })
  const busy = await box.run(['init', ...box.withPassword])
  t.equal(busy.status, 1, 'nobody else opens it meanwhile')

  await box.json(['lock'])
  t.equal((await ask(vault.url, added.token, '/v1/vault/read', read))?.body.error.code, 'VAULT_LOCKED')
  await box.json(['unlock', ...box.withPassword])
  t.equal((await ask(vault.url, added.token, '/v1/vault/read', read))?.status, 200)

  const assets = [{ chain: 'base', symbol: 'USDC', perTransaction: '5', perDay: '5', autoApproveUpTo: '1' }]
  const rules = JSON.stringify({ assets, recipients: 'any' })
  const fees = [{ chain: 'base', symbol: 'ETH', perDay: '0.0001', autoApproveUpTo: '0.0001' }]
  t.match(
    await box.json(['policies', 'set', 'bot', '--file', '-'], rules),
    { fees },
    'the fees that go with it',
  )
  t.match((await box.run(['policies', 'list'])).stdout, JSON.stringify({ without_scope: [] }).slice(1, -1))
  const elsewhere = await box.run(['policies', 'set', 'bot', '--file', '-'], rules.replace('base', 'solana'))
  t.match([elsewhere.status, elsewhere.stdout], [1, /no scope wallet\.solana/])
  await box.json(['agents', 'revoke', 'bot'])
  t.equal((await ask(vault.url, added.token, '/v1/vault/read', read))?.status, 401)
  t.equal((await box.json(['verify'])).ok, true)
  t.equal(await vault.stop(), 0)

  const offline = await box.run(['status'])
  t.match(
    [offline.status, offline.stderr],
    [2, /password-file/],
    'without a running vault the password is needed',
  )
  t.equal((await box.json(['status', ...box.withPassword])).running, false)
  t.match(await box.json(['address', 'base-sepolia', ...box.withPassword]), { chain: 'base-sepolia' })
  for (const command of ['lock', 'unlock', 'open']) {
    const { status, stdout } = await box.run([command, ...box.withPassword])
    t.match([status, stdout], [2, /No vault is running/], `nothing is said to be done: ${command}`)
  }
  t.match(
    await box.run(['address', 'base']),
    { status: 2, stdout: '' },
    'an error never stands for an address',
  )
})

t.test('a slip of the owner is named', async (t) => {
  const box = createVaultBox(t)
  const { status, stderr } = await box.run(['status'])
  t.match([status, stderr], [1, /tollgate vault init/], 'there is no vault yet')
  await box.json(['init', ...box.withPassword])
  const vault = await box.serve()
  t.match(
    (await box.run(['agents', 'add', 'bot', '--scopes', 'wallet.bse'])).stderr,
    /does not offer the chain bse, .*Did you mean base\?/,
  )
  for (const [args, code, words, stdin] of [
    [['adress', 'base'], 2, /Did you mean address\?/],
    [['agents', 'add', 'x', '--scopes', ''], 2, /at least one scope/],
    [['agents', 'add', 'x'], 2, /--scopes/],
    [['put', 'credentials.api.x', '--method', 'GET'], 2, /Add --origin/, 'key'],
    [['put', 'credentials.api.x'], 0, /No call can use credentials\.api\.x yet/, 'key'],
    [['policies', 'set', 'bot', '--file', '-'], 2, /standard input, line 2, column 3/, '{\n  secret'],
    [['policies', 'delete', 'bto'], 1, /name or id of an agent/],
    [['activity', '--agent', 'bto', '--json'], 0, /^$/],
    [['address', 'base-sepolia'], 1, /runs with --testnets\.$/m],
    [['backup', join(box.home, 'none', 'backup')], 1, /ENOENT\. Name a file in an existing folder/],
    [['backup', join(box.home, 'vault.json')], 1, /already exists\. Choose another name\.$/m],
    [['--relay', 'http://relay.example'], 2, /wss:\/\//],
    [['--relay-ca', '/nowhere'], 2, /--relay-ca/],
    [['--solana-rpc', 'nonsense'], 2, /--solana-rpc/],
    [['password', ...box.withPassword], 2, /--new-password-file/],
    [['restore', '/nowhere'], 2, /no such file/],
  ] as const) {
    const ran = await box.run(args, stdin)
    t.match([ran.status, ran.stderr], [code, words], args.join(' '))
    t.notMatch(ran.stderr, /secret|details|Retry-After/)
  }
  await box.json(['lock'])
  t.match((await box.run(['get', 'identity.name'])).stderr, /tollgate vault unlock/)
  await box.json(['init', '--home', `${box.home}2`, ...box.withPassword])
  t.teardown(() => rmSync(`${box.home}2`, { recursive: true }))
  const taken = await box.run([
    ...['--port', new URL(vault.url).port, '--home', `${box.home}2`],
    ...box.withPassword,
  ])
  t.match([taken.status, taken.stderr], [1, /Another program listens on 127\.0\.0\.1:\d+\./])
})

t.test('a proxy that no vault answers says so', async (t) => {
  const home = mkdtempSync(join(tmpdir(), 'vp-'))
  const key = Buffer.alloc(32, 1).toString('base64')
  const args = ['--service-id', 'desk', '--vault', `vlt_${'a'.repeat(24)}`, '--hpke-key', key, '--home', home]
  const token = `vpt_${'A'.repeat(64)}`
  const proxy = spawn(
    process.execPath,
    [main, 'proxy', ...args, '--relay', 'ws://127.0.0.1:1', '--pair', token],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  )
  t.teardown(() => {
    proxy.kill('SIGKILL')
    rmSync(home, { recursive: true, force: true })
  })
  let output = ''
  for await (const chunk of proxy.stderr) if (/\n/.test((output += chunk))) break
  t.match(output, /No vault responds through ws:\/\/127\.0\.0\.1:1 yet/)
  t.notMatch(output, token)
})

t.test("an agent's text reaches the owner's terminal as text", async (t) => {
  const box = createVaultBox(t)
  await box.json(['init', ...box.withPassword])
  const { token } = await box.json(['agents', 'add', 'bot', '--scopes', 'identity.name', ...box.withPassword])
  const vault = await box.serve()
  t.match(await box.json(['agents', 'change', 'bot', '--scopes', 'wallet.base', '--rate', '600']), {
    scopes: ['wallet.base'],
    requests_per_minute: 600,
  })
  t.match(await box.run(['agents', 'change', 'bot']), { status: 2, stderr: /--scopes or --rate/ })
  t.match(await box.json(['policies', 'reset-day']), { reset: true })
  const message = 'hi\u001b[2J\u202e\u0007\r\nApproved.\u2028<script>alert(1)</script>'
  const body = { chain: 'base', message, agent_name: `bot${message}`, purpose: message }
  const pendingApproval = await ask(vault.url, token, '/v1/vault/sign-message', body)
  t.equal(pendingApproval?.status, 202)
  for (const args of [['approvals'], ['deny', pendingApproval?.body.approval_id], ['activity']]) {
    const { stdout, stderr } = await box.run(args)
    t.not(stdout, '')
    t.notMatch(stdout + stderr, dangerous)
  }
})

t.test('wrong flags and files are said before anything is done', async (t) => {
  const box = createVaultBox(t)
  await box.json(['init', ...box.withPassword])
  for (const [args, message] of [
    [['--mode', 'carrier-pigeon', ...box.withPassword], /--mode/],
    [['--port', '99999', ...box.withPassword], /--port/],
    [['--insecure-no-token'], /--password-file/],
    [['init'], /--password-file/],
    [['status', '--password-file', '/nowhere'], /nowhere/],
    [['status', '--home', join(box.home, 'x'.repeat(120)), ...box.withPassword], /--socket/],
  ] as const) {
    const { status, stderr } = await box.run(args)
    t.match([status, stderr], [2, message], args.join(' '))
  }
  const elsewhere = await box.run(['--host', '0.0.0.0', '--port', '0', ...box.withPassword])
  t.match([elsewhere.status, elsewhere.stderr], [1, /loopback/])
  const placed = await box.run(['--home', join(box.home, 'none'), 'status', ...box.withPassword])
  t.match([placed.status, placed.stdout], [1, /VAULT_NOT_FOUND/], 'a flag before the subcommand counts')
  const open = join(box.home, '..', 'open')
  writeFileSync(open, 'correct horse battery staple')
  chmodSync(open, 0o644)
  t.match((await box.run(['status', '--password-file', open])).stderr, /0600/)
})

t.test('--insecure-no-token takes requests as the document shows them, on loopback, loudly', async (t) => {
  const box = createVaultBox(t)
  await box.json(['init', ...box.withPassword])
  const vault = await box.serve(['--insecure-no-token'])
  t.equal((await fetch(`${vault.url}/v1/capabilities`)).status, 200)
  const address = await fetch(`${vault.url}/address/solana`)
  t.strictSame(Object.keys((await address.json()) as object), ['address', 'chain'])
  const owners = await fetch(`${vault.url}/v1/vault/agents`)
  t.equal(owners.status, 403)
  const page = await fetch(`${vault.url}/v1/capabilities`, { headers: { origin: 'https://evil.example' } })
  t.equal(page.status, 403)
})
