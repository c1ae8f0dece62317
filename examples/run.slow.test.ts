import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { createServer as createHttpServer } from 'node:http'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { createEgress } from '../adapters/egress/egress.ts'
import { approveAsOwner } from '../cli/demo/showVault.ts'
import { type Demo, startDemo } from '../cli/demo/startDemo.ts'
import { type DemoVault, startDemoVault } from '../cli/demo/startDemoVault.ts'
import { checkConfig } from '../cli/runtime/checkConfig.ts'
import { readConfig } from '../cli/runtime/readConfig.ts'
import { startTollgate } from '../cli/runtime/startTollgate.ts'
import { readVaultConfig } from '../cli/vault/readVaultConfig.ts'
import { silentLog } from '../core/ports/log.ts'
import { createDemoFacilitator } from '../localnet/demoWallets.ts'
import { eventually } from '../test/e2e/helpers/eventually.ts'
import { freePort } from '../test/helpers/freePort.ts'
import { startVault } from '../test/helpers/vault/startVault.ts'

const folder = import.meta.dirname
const usdc = 1_000_000n

/** Environment variables of the configurations in this folder. None of the keys holds money. */
const sampleEnv = {
  TOLLGATE_BASE_RPC_URL: 'http://127.0.0.1:9',
  TOLLGATE_SOLANA_RPC_URL: 'http://127.0.0.1:9',
  TOLLGATE_SOLANA_WS_URL: 'ws://127.0.0.1:9',
  TOLLGATE_FACILITATOR_URL: 'http://127.0.0.1:9',
  TOLLGATE_FACILITATOR_TOKEN: 'token',
  TOLLGATE_FACILITATOR_EVM_KEY: `0x${'11'.repeat(32)}`,
  TOLLGATE_FACILITATOR_EVM_KEY_2: `0x${'22'.repeat(32)}`,
  TOLLGATE_FACILITATOR_SOLANA_KEY: '',
  DENIED_WALLET: '0x1111111111111111111111111111111111111111',
}

/** A separate local chain, gateway and seller for all examples, which run as separate programs. */
async function demoFor(t: Test): Promise<Demo> {
  const demo = await startDemo({ port: await freePort(), onStep: () => {} })
  t.teardown(() => demo.close())
  return demo
}

const run = (example: string, env: Record<string, string>) =>
  runNode([join(folder, example, 'index.ts')], env)

/** Runs a program as shown in a guide, where the packages are installed. */
const runCode = (code: string, argument: string, env: Record<string, string>) =>
  runNode(['--input-type=module', '--eval', code, argument], env)

async function runNode(args: readonly string[], env: Record<string, string>) {
  const child = spawn(process.execPath, args, {
    cwd: folder,
    env: { PATH: process.env['PATH'], ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const exited = once(child, 'exit')
  const [stdout, stderr, [status]] = await Promise.all([text(child.stdout), text(child.stderr), exited])
  return { status: status as number, stdout, stderr }
}

async function fundedBuyer({ evm }: Demo) {
  const key = generatePrivateKey()
  const { address } = privateKeyToAccount(key)
  await evm.mintUsdc(address, usdc)
  return { key, address }
}

/** The id of the owner's first open approval, once there is one. */
const firstQuestion = ({ owner }: DemoVault): Promise<string> =>
  eventually(async () => {
    const path = '/v1/vault/approvals?status=pending'
    return (await owner.call<{ approvals: { id: string }[] }>('GET', path)).approvals[0]?.id
  })

t.test('the examples do what they say, against a gateway and a chain of this machine', async (t) => {
  const demo = await demoFor(t)
  const GATEWAY_URL = demo.tollgate.gatewayUrl
  const buyer = await fundedBuyer(demo)

  await t.test('buyer-fetch pays a link that seller-signup made, to the wallet that signed', async (t) => {
    const SELLER_KEY = generatePrivateKey()
    const made = await run('seller-signup', { GATEWAY_URL, SELLER_KEY, API_URL: demo.sample.url })
    t.equal(made.status, 0, made.stderr)
    const { link, price, apiKey } = JSON.parse(made.stdout)
    t.equal(price, '0.01')
    t.match(apiKey, /^tg_live_/)

    const bought = await run('buyer-fetch', { LINK_URL: link, BUYER_KEY: buyer.key })
    t.equal(bought.status, 0, bought.stdout + bought.stderr)
    t.match(JSON.parse(bought.stdout), { status: 200, data: { city: 'Lisbon' }, transaction: /^0x/ })
    const { address } = privateKeyToAccount(SELLER_KEY)
    t.equal(await demo.evm.balanceUsdc(address), 10_000n, 'the seller has its 0.01 USDC')

    const readme = readFileSync(join(folder, '../README.md'), 'utf8')
    const [, inReadme = ''] = /^```js\n([\s\S]*?)^```$/m.exec(readme) ?? []
    const again = await runCode(inReadme, link, { BUYER_KEY: buyer.key })
    t.match(
      again,
      { status: 0, stdout: /^200 [\s\S]*Lisbon/, stderr: '' },
      'as does the program of the README',
    )
    t.equal(await demo.evm.balanceUsdc(address), 20_000n)

    const NEW_WALLET = privateKeyToAccount(generatePrivateKey()).address
    const env = { GATEWAY_URL, TOLLGATE_API_KEY: apiKey, NEW_WALLET }
    const stolen = await run('seller-payout', { ...env, SELLER_KEY: generatePrivateKey() })
    t.not(stolen.status, 0)
    t.match(stolen.stderr, /INVALID_SIGNATURE/)
    const moved = await run('seller-payout', { ...env, SELLER_KEY })
    t.equal(moved.status, 0, moved.stderr)
    t.match(JSON.parse(moved.stdout), { base: NEW_WALLET, solana: null })
    await run('buyer-fetch', { LINK_URL: link, BUYER_KEY: buyer.key })
    t.equal(await demo.evm.balanceUsdc(NEW_WALLET), 10_000n, 'the next sale is paid there')
  })

  await t.test('buyer-mcp finds a link by tools and buys a call of it', async (t) => {
    const buying = await run('buyer-mcp', { MCP_URL: `${GATEWAY_URL}/mcp`, BUYER_KEY: buyer.key })
    t.equal(buying.status, 0, buying.stdout + buying.stderr)
    t.match(JSON.parse(buying.stdout), { link: /\/api\/link\//, response: Object, transaction: /^0x/ })
  })

  await t.test(
    'buyer-vault has no key: its vault pays, above the limit when the owner allows it',
    async (t) => {
      const vault = await startDemoVault(demo)
      t.teardown(() => vault.close())
      const env = { VAULT_URL: vault.url, VAULT_TOKEN: vault.token }
      const cheap = await run('buyer-vault', { ...env, LINK_URL: demo.link.url })
      t.equal(cheap.status, 0, cheap.stderr)
      t.match(JSON.parse(cheap.stdout), { status: 200, data: { city: 'Lisbon' }, transaction: /^0x/ })

      const buying = run('buyer-vault', { ...env, LINK_URL: demo.expensiveLink.url })
      await approveAsOwner(vault, await firstQuestion(vault))
      const dear = await buying
      t.equal(dear.status, 0, dear.stderr)
      t.match(JSON.parse(dear.stdout), { status: 200, transaction: /^0x/ })

      const refused = await run('buyer-vault', { ...env, LINK_URL: demo.expensiveLink.url, MAX_USDC: '0.10' })
      t.match([refused.status, refused.stderr], [1, /BUDGET_EXCEEDED_TX/])
    },
  )

  await t.test(
    'webhook-receiver says a sale once, and takes nothing that is not signed for it',
    async (t) => {
      const api = (path: string, body: object) =>
        fetch(GATEWAY_URL + path, {
          method: 'POST',
          headers: { authorization: `Bearer ${demo.apiKey}`, 'content-type': 'application/json' },
          body: JSON.stringify(body),
        }).then(
          (response) => response.json() as Promise<{ data: { fullUrl: string; webhookSecret: string } }>,
        )
      const port = await freePort()
      const webhookUrl = `http://127.0.0.1:${port}/`
      const { data: link } = await api('/api/v1/links', {
        url: demo.sample.url,
        title: 'Told',
        price: '0.01',
        webhookUrl,
      })
      const receiver = spawn(process.execPath, [join(folder, 'webhook-receiver/index.ts')], {
        env: { PATH: process.env['PATH'], WEBHOOK_SECRET: link.webhookSecret, PORT: String(port) },
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      t.teardown(() => void receiver.kill())
      const lines = createInterface(receiver.stdout)[Symbol.asyncIterator]()
      t.equal((await lines.next()).value, webhookUrl)
      t.equal((await fetch(webhookUrl, { method: 'POST', body: '{}' })).status, 401)
      const LINK_URL = GATEWAY_URL + new URL(link.fullUrl).pathname
      const bought = await run('buyer-fetch', { LINK_URL, BUYER_KEY: buyer.key })
      t.equal(bought.status, 0, bought.stderr)
      const result = JSON.parse((await lines.next()).value!)
      t.match(result, { purchaseId: /^[0-9a-f-]{36}$/, amount: '0.01' })
    },
  )

  await t.test(
    'price-server states the price of a request, and answers nothing that is not signed',
    async (t) => {
      const port = await freePort()
      const priceUrl = `http://127.0.0.1:${port}/`
      const created = await fetch(`${GATEWAY_URL}/api/v1/links`, {
        method: 'POST',
        headers: { authorization: `Bearer ${demo.apiKey}`, 'content-type': 'application/json' },
        body: JSON.stringify({
          url: demo.sample.url,
          title: 'Priced',
          price: { url: priceUrl, max: '0.50', fallback: null },
        }),
      })
      const { data: link } = (await created.json()) as { data: { fullUrl: string; priceSecret: string } }
      const server = spawn(process.execPath, [join(folder, 'price-server/index.ts')], {
        env: { PATH: process.env['PATH'], PRICE_SECRET: link.priceSecret, PORT: String(port) },
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      t.teardown(() => void server.kill())
      t.equal((await createInterface(server.stdout)[Symbol.asyncIterator]().next()).value, priceUrl)
      t.equal((await fetch(priceUrl, { method: 'POST', body: '{}' })).status, 401)
      const LINK_URL = GATEWAY_URL + new URL(link.fullUrl).pathname
      const priced = async (body: string) => {
        const response = await fetch(LINK_URL, { method: 'POST', body })
        return ((await response.json()) as { accepts: { amount: string }[] }).accepts[0]!.amount
      }
      t.equal(await priced('short'), '10000')
      t.equal(await priced('x'.repeat(2_345)), '24000')
      const before = await demo.evm.balanceUsdc(buyer.address)
      const bought = await run('buyer-fetch', { LINK_URL, BUYER_KEY: buyer.key })
      t.equal(bought.status, 0, bought.stderr)
      t.equal(before - (await demo.evm.balanceUsdc(buyer.address)), 10_000n)
    },
  )

  await t.test('stream charges first and hands every event on before the next one is made', async (t) => {
    const { status, stdout, stderr } = await run('stream', {
      GATEWAY_URL,
      API_KEY: demo.apiKey,
      BUYER_KEY: buyer.key,
    })
    t.equal(status, 0, stderr)
    t.match(stdout, /^200, purchase [0-9a-f-]{36}\none\ntwo\n$/)
  })

  await t.test('sell-by-token streams a model, and charges its tokens at the end', async (t) => {
    const reader = await fundedBuyer(demo)
    await demo.evm.allowPermit2(reader.address)
    const { status, stdout, stderr } = await run('sell-by-token', {
      GATEWAY_URL,
      API_KEY: demo.apiKey,
      BUYER_KEY: reader.key,
    })
    t.equal(status, 0, stderr)
    t.equal(stdout, '200: Hello from a model.\ncharged 0.0105 of at most 0.10 USDC\n')
  })

  await t.test('plugin refuses the wallet that its configuration names, and sells to others', async (t) => {
    const denied = await fundedBuyer(demo)
    const { evmKey } = await createDemoFacilitator(demo.evm, demo.solana)
    const env = {
      TOLLGATE_PORT: '0',
      TOLLGATE_ADMIN_PORT: '0',
      TOLLGATE_DATA: t.testdir({}),
      TOLLGATE_EVM_RPC_URL: demo.evm.rpcUrl,
      TOLLGATE_FACILITATOR_EVM_KEY: evmKey,
      DENIED_WALLET: denied.address,
    }
    const loaded = await readConfig(join(folder, 'plugin/tollgate.yaml'), env)
    const tollgate = await startTollgate(loaded, { env: {}, log: silentLog })
    t.teardown(() => tollgate.close())
    const made = await run('seller-signup', {
      GATEWAY_URL: tollgate.gatewayUrl,
      SELLER_KEY: generatePrivateKey(),
      API_URL: demo.sample.url,
    })
    const LINK_URL = tollgate.gatewayUrl + new URL(JSON.parse(made.stdout).link).pathname
    const refused = await run('buyer-fetch', { LINK_URL, BUYER_KEY: denied.key })
    t.match(JSON.parse(refused.stdout), { status: 403, error: { code: 'buyer_refused' } })
    t.equal(await demo.evm.balanceUsdc(denied.address), usdc, 'nothing was charged')
    const bought = await run('buyer-fetch', { LINK_URL, BUYER_KEY: buyer.key })
    t.equal(JSON.parse(bought.stdout).status, 200)
  })
})

t.test('vault-plugin asks the owner for a host that its configuration does not name', async (t) => {
  const api = createHttpServer((_req, res) => res.end('{}')).listen(0, '127.0.0.1')
  await once(api, 'listening')
  t.teardown(() => api.close())
  const { port } = api.address() as { port: number }
  const [known, unknown] = [`127.0.0.1:${port}`, `localhost:${port}`]
  const { plugins } = await readVaultConfig(join(folder, 'vault-plugin'), undefined, { API_HOST: known })
  const egress = createEgress({ allowPrivateCidrs: ['127.0.0.0/8'] })
  const vault = await startVault(t, { plugins, egress: () => egress })
  t.teardown(() => egress.close())
  const scope = 'credentials.api.demo'
  const rules = [known, unknown].map((host) => ({
    origin: `http://${host}`,
    methods: ['GET'],
    paths: ['/**'],
  }))
  const settings = { rules, allow_private: ['127.0.0.0/8'] }
  t.equal((await vault.asOwner('POST', '/v1/vault/write', { scope, value: 'key', settings })).status, 200)
  const agent = await vault.agent('bot', [scope])
  const call = (host: string) =>
    agent.call(
      'POST',
      '/v1/vault/call',
      { scope, method: 'GET', url: `http://${host}/v1`, agent_name: 'bot' },
      { prefer: 'wait=0' },
    )
  t.equal((await call(known)).status, 200)
  t.equal((await call(unknown)).status, 202)
  const [question] = vault.api.approvalQueue.open()
  t.match(question?.reasons.join(), `${unknown} is not on the list of hosts.`)
})

t.test('every configuration of the examples holds, and says what a paid call runs through', async (t) => {
  const [first, second] = [await solanaKey(), await solanaKey()]
  const env = {
    ...sampleEnv,
    TOLLGATE_FACILITATOR_SOLANA_KEY: first.secretKey,
    TOLLGATE_FACILITATOR_SOLANA_KEY_2: second.secretKey,
    TOLLGATE_DATA: t.testdir({}),
  }
  const files = readdirSync(join(folder, 'config')).filter((name) => name.endsWith('.yaml'))
  t.ok(files.length >= 3)
  for (const file of [...files.map((name) => join('config', name)), 'plugin/tollgate.yaml']) {
    const { links, warnings } = await checkConfig(join(folder, file), env)
    const program = links.find(({ link }) => link === 'a paid link')?.pipeline ?? []
    t.ok(
      program.some(({ phase, plugin }) => phase === 'settle' && plugin === 'x402'),
      file,
    )
    t.strictSame(warnings, [], file)
  }
})

async function solanaKey(): Promise<{ secretKey: string }> {
  const { Keypair } = await import('@solana/web3.js')
  return { secretKey: JSON.stringify([...Keypair.generate().secretKey]) }
}
