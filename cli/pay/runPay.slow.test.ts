import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { Command } from 'commander'
import t, { type Test } from 'tap'
import { DEFAULT_TIMEOUT_MS } from '../../buyer/payOptions.ts'
import { startEvmWorld } from '../../test/helpers/buyer/evmWorld.ts'
import { type Answer, deliver, offer, startSeller } from '../../test/helpers/buyer/seller.ts'
import { registerPay } from './command.ts'
import { exitCodeOf, exitCodes } from './exitCodes.ts'
import { type PayFlags, runPay } from './runPay.ts'

const world = await startEvmWorld(t)
const home = mkdtempSync(join(tmpdir(), 'tollgate-home-'))
t.teardown(() => rmSync(home, { recursive: true, force: true }))

interface Run {
  code: number
  stdout: string
  stderr: string
  paid: number
  /** stdout as JSON. */
  // biome-ignore lint/suspicious/noExplicitAny: a test reads what it expects.
  json: () => any
}

/** Runs the command as from a shell; with `typed`, on a terminal where a person types that. */
async function run(t: Test, respond: Answer, flags: PayFlags = {}, typed?: string): Promise<Run> {
  const seller = await startSeller(respond)
  t.teardown(() => seller.close())
  const isTTY = typed !== undefined
  const stream = () => Object.assign(new PassThrough(), { isTTY })
  const [stdin, stdout, stderr] = [stream(), stream(), stream()]
  if (typed !== undefined) stdin.end(typed)
  const env = { TOLLGATE_EVM_KEY: world.privateKey, TOLLGATE_HOME: home }
  const target = flags.resume === undefined ? seller.url : undefined
  const code = await runPay(
    target,
    { rpc: world.chain.rpcUrl, timeout: '10', ...flags },
    { stdin, stdout, stderr, env },
  )
  const out = textOf(stdout)
  return {
    code,
    stdout: out,
    stderr: textOf(stderr),
    paid: seller.paid().length,
    json: () => JSON.parse(out),
  }
}

/** Everything that was written so far. `read` returns one chunk at a time. */
function textOf(stream: PassThrough): string {
  let text = ''
  for (let chunk = stream.read(); chunk !== null; chunk = stream.read()) text += String(chunk)
  return text
}

const at =
  (amount: string): Answer =>
  async (request, response, seller) => {
    if (request.payment !== null) return await world.honest(request, response, seller)
    offer(response, world.offerFor(seller.url, { amount }))
  }

t.test('a pipe gets one JSON object, and progress goes to stderr', async (t) => {
  const result = await run(t, world.honest)
  t.equal(result.code, 0)
  t.equal(result.stdout.trimEnd().split('\n').length, 1)
  t.match(result.json(), {
    outcome: 'paid',
    exitCode: 0,
    isVerified: true,
    charged: 'yes',
    response: { status: 200, bodyEncoding: 'json', body: { data: { hello: 'world' } } },
    payment: { amount: '0.01', symbol: 'USDC', usd: '0.01', network: 'eip155:84532', payTo: world.payTo },
    explorer: /^https:\/\/sepolia\.basescan\.org\/tx\/0x/,
  })
  t.match(result.stderr, /Price: 0.01 USDC/)
  t.strictSame(readdirSync(join(home, 'payments')), [], 'nothing is left to resume')
})

t.test('a terminal gets the answer and a table', async (t) => {
  const result = await run(t, world.honest, {}, '')
  t.equal(result.stdout, '{"data":{"hello":"world"}}\n')
  t.match(result.stderr, /Paid, and the chain confirms the payment/)
  t.match(result.stderr, /verified\s+yes, by the chain/)
  t.match(result.stderr, /at\s+http:.*\/api\/link\/demo\/hello/)
})

t.test('nothing that a seller writes controls the terminal', async (t) => {
  const evil = '\u001b]0;owned\u0007\u001b[2J\u202e\u009b31m\r'
  const result = await run(
    t,
    async (request, response, seller) => {
      const resource = { url: seller.url, description: evil }
      if (request.payment === null) return offer(response, world.offerFor(seller.url, {}, { resource }))
      deliver(response, world.receiptOf(await world.settle(request)), `{"text":"${evil}"}`)
    },
    {},
    '',
  )
  t.equal(result.code, 0)
  // biome-ignore lint/suspicious/noControlCharactersInRegex: that is the point.
  const harmful = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202e]/
  t.notMatch(result.stdout, harmful)
  t.notMatch(result.stderr, harmful)
  t.match(result.stderr, /\\u\{1b\}/, 'it is shown instead')

  const redirect = await run(t, (_, response) => {
    response.socket!.end(`HTTP/1.1 302 Found\r\nLocation: https://x/\u009b31m\r\nContent-Length: 0\r\n\r\n`)
  })
  t.equal(redirect.code, 3)
  t.notMatch(redirect.stdout + redirect.stderr, harmful)
})

t.test('a binary answer is not thrown at a terminal, and --output keeps its bytes', async (t) => {
  const bytes = Buffer.from([0xff, 0xd8, 0x1b, 0x5b, 0x00])
  const binary: Answer = async (request, response, seller) => {
    if (request.payment === null) return offer(response, world.offerFor(seller.url))
    const header = Buffer.from(JSON.stringify(world.receiptOf(await world.settle(request)))).toString(
      'base64',
    )
    response.writeHead(200, { 'payment-response': header, 'content-type': 'image/jpeg' }).end(bytes)
  }
  const shown = await run(t, binary, {}, '')
  t.equal(shown.stdout, '(5 bytes of image/jpeg; --output FILE keeps them)\n')
  const piped = await run(t, binary)
  t.match(piped.json().response, { bodyEncoding: 'base64', body: bytes.toString('base64') })
  const output = join(home, 'picture.jpg')
  writeFileSync(output, 'what was there before')
  const kept = await run(t, binary, { output })
  t.match(kept.json().response, { bytes: 5, savedTo: output, body: undefined })
  t.strictSame(readFileSync(output), bytes)
})

t.test('a file that can not be written is found out before anything is paid', async (t) => {
  const result = await run(t, world.honest, { output: join(home, 'missing', 'file') })
  t.equal(result.code, exitCodes.usage)
  t.equal(result.paid, 0)
})

t.test('a refused offer leaves the output file as it was', async (t) => {
  const output = join(home, 'before.txt')
  writeFileSync(output, 'before')
  const result = await run(t, at('0'), { output })
  t.equal(result.code, exitCodes.refused)
  t.equal(readFileSync(output, 'utf8'), 'before')
  t.strictSame(
    readdirSync(home).filter((name) => name.endsWith('.part')),
    [],
  )
})

t.test('above the cap a person is asked, and only yes is yes', async (t) => {
  for (const [typed, code] of [
    ['y\n', 0],
    ['YES\n', 0],
    ['n\n', 4],
    ['\n', 4],
    ['yep\n', 4],
    ['', 4],
  ] as const) {
    const result = await run(t, at('20000'), { max: '0.01' }, typed)
    t.equal(result.code, code, JSON.stringify(typed))
    t.match(result.stderr, /The price is 0.02 USD, above the cap of 0.01 USD/)
    t.equal(result.paid, code === 0 ? 1 : 0)
  }
})

t.test('above the cap a pipe is refused, and says so', async (t) => {
  const result = await run(t, at('20000'), { max: '0.01' })
  t.equal(result.code, exitCodes.aboveCap)
  t.match(result.json(), { outcome: 'above_cap', message: /above the cap of 0.01 USD/, charged: 'no' })
  t.equal(result.paid, 0)
})

t.test('--yes agrees up to ten times the cap, aloud, and never to more', async (t) => {
  const within = await run(t, at('100000'), { max: '0.01', yes: true })
  t.equal(within.code, 0)
  t.match(within.stderr, /0.10 USD is above the cap of 0.01 USD. Paying because of --yes/)
  const beyond = await run(t, at('100001'), { max: '0.01', yes: true })
  t.equal(beyond.code, exitCodes.aboveCap)
  t.equal(beyond.paid, 0)
})

t.test('wrong options are refused before anything is asked', async (t) => {
  for (const flags of [
    { network: 'optimism' },
    { max: '-1' },
    { max: '1e3' },
    { max: '0' },
    { timeout: '0' },
    { timeout: '1.5' },
    { maxBody: '0' },
    { rpc: 'file:///etc/passwd' },
    { method: 'CONNECT' },
    { method: 'GET /\r\nX: y' },
    { header: ['no colon'] },
    { header: ['A: b\r\nC: d'] },
    { header: ['PAYMENT-SIGNATURE: x'] },
    { header: ['Host: other.example'] },
    { header: ['Transfer-Encoding: chunked'] },
    { body: '@/does/not/exist' },
    { keyFile: '/does/not/exist' },
    { resume: '/does/not/exist' },
    { resume: '/does/not/exist', again: true },
  ] satisfies PayFlags[]) {
    const seller = await startSeller(world.honest)
    const target = 'resume' in flags ? undefined : seller.url
    const stream = () => new PassThrough()
    const io = { stdin: stream(), stdout: stream(), stderr: stream(), env: { TOLLGATE_HOME: home } }
    t.equal(await runPay(target, flags, io), exitCodes.usage, JSON.stringify(flags))
    t.match(JSON.parse(textOf(io.stdout)), { outcome: 'usage', exitCode: 2 })
    t.equal(seller.received.length, 0)
    await seller.close()
  }
})

t.test('a POST with a body goes through, and a JSON body is sent as JSON', async (t) => {
  const seen: unknown[] = []
  const result = await run(
    t,
    (request, response, seller) => {
      seen.push([request.method, request.body, request.headers['content-type'], request.headers['x-a']])
      return world.honest(request, response, seller)
    },
    { body: '{"a":1}', header: ['X-A: 1'], network: 'base-sepolia' },
  )
  t.equal(result.code, 0)
  const call = ['POST', '{"a":1}', 'application/json', '1']
  t.strictSame(seen, [call, call])
})

t.test('an open payment names its file, and --resume goes on', async (t) => {
  let isBroken = true
  const seller = await startSeller((request, response, seller) =>
    request.payment !== null && isBroken
      ? response.writeHead(503).end()
      : world.honest(request, response, seller),
  )
  t.teardown(() => seller.close())
  const stream = () => new PassThrough()
  const io = () => ({ stdin: stream(), stdout: stream(), stderr: stream() })
  const first = io()
  const env = { TOLLGATE_EVM_KEY: world.privateKey, TOLLGATE_HOME: home }
  const flags = { rpc: world.chain.rpcUrl, timeout: '3' }
  t.equal(await runPay(seller.url, flags, { ...first, env }), exitCodes.unknown)
  const { stateFile } = JSON.parse(textOf(first.stdout))
  t.ok(existsSync(stateFile))

  isBroken = false
  const second = io()
  t.equal(await runPay(undefined, { ...flags, resume: stateFile }, { ...second, env: {} }), 0)
  t.match(JSON.parse(textOf(second.stdout)), { outcome: 'paid', isVerified: true })
})

t.test('no output ever holds the key', async (t) => {
  const key = world.privateKey.slice(2)
  for (const [respond, flags] of [
    [world.honest, {}],
    [at('0'), {}],
    [at('20000'), { max: '0.01' }],
  ] as const) {
    const result = await run(t, respond, flags)
    t.notOk((result.stdout + result.stderr).includes(key))
  }
})

t.test('the process exits with the code, and at once', async (t) => {
  const script = `
    import { Command } from 'commander'
    import { registerPay } from ${JSON.stringify(new URL('./command.ts', import.meta.url).href)}
    const program = new Command('tollgate')
    registerPay(program)
    await program.parseAsync()`
  const seller = await startSeller(world.honest)
  t.teardown(() => seller.close())
  const node = ['--input-type=module', '-e', script, '--', 'pay']
  const env = { ...process.env, TOLLGATE_EVM_KEY: world.privateKey, TOLLGATE_HOME: home }
  const codeOf = (...args: string[]) =>
    new Promise((resolve) => {
      execFile(process.execPath, [...node, ...args], { env }, (error) => resolve(error?.code ?? 0))
    })
  t.equal(await codeOf(seller.url, '--rpc', world.chain.rpcUrl), 0)
  t.equal(await codeOf(seller.url, '--rpc', world.chain.rpcUrl, '--max', '0.001'), exitCodes.aboveCap)
  t.equal(await codeOf(seller.url, '--no-such-option'), exitCodes.usage)
  t.equal(await codeOf('not an address'), exitCodes.usage)
  t.equal(await codeOf('--help'), 0)
  t.equal(seller.paid().length, 1)
})

t.test('the command documents its options and every exit code', async (t) => {
  const program = new Command('tollgate')
  registerPay(program)
  const pay = program.commands.find((command) => command.name() === 'pay')!
  let help = ''
  pay.configureOutput({ writeOut: (text) => void (help += text) }).outputHelp()
  for (const option of [
    '--network',
    '--max',
    '--yes',
    '--json',
    '--key-file',
    '--rpc',
    '--resume',
    '--again',
    '--output',
  ]) {
    t.ok(help.includes(option), option)
  }
  for (const code of Object.values(exitCodes)) t.match(help, new RegExp(`^  ${code}  `, 'm'))
  t.match(help, /\(default 30\)/, 'what an agent waits for, in seconds')
  t.equal(DEFAULT_TIMEOUT_MS, 30_000)
  t.notMatch(help, /--key\b(?!-file)|--private-key/, 'a key is never an argument')
})

t.test('every outcome keeps its exit code', async (t) => {
  t.strictSame(exitCodeOf, {
    free: 0,
    paid: 0,
    refunded: 0,
    refused: 3,
    above_cap: 4,
    failed: 5,
    rejected: 6,
    unverified: 7,
    unknown: 8,
    bad_response: 9,
    vault_refused: 10,
    over_budget: 11,
    vault_locked: 12,
    vault_unavailable: 13,
    vault_unanswered: 14,
    under_way: 15,
  })
})
