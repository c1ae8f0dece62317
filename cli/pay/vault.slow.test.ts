import { chmodSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { Keypair } from '@solana/web3.js'
import t, { type Test } from 'tap'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { createEvmBuyer } from '../../buyer/chains/evmBuyer.ts'
import { createSolanaBuyer } from '../../buyer/chains/solanaBuyer.ts'
import { startEvmWorld } from '../../test/helpers/buyer/evmWorld.ts'
import {
  type FakeVaultOptions,
  json,
  type OrderResponse,
  startFakeVault,
  vaultError,
} from '../../test/helpers/buyer/fakeVault.ts'
import { startSeller } from '../../test/helpers/buyer/seller.ts'
import { startSolanaWorld } from '../../test/helpers/buyer/solanaWorld.ts'
import { type PayFlags, runPay } from './runPay.ts'

const evm = await startEvmWorld(t)
const solana = await startSolanaWorld(t)
const home = mkdtempSync(join(tmpdir(), 'tollgate-pay-vault-'))
t.teardown(() => rmSync(home, { recursive: true, force: true }))

const elsewhere = privateKeyToAccount(generatePrivateKey()).address
const evmWallet = () => createEvmBuyer({ privateKey: evm.privateKey, rpcUrl: evm.chain.rpcUrl })
const solanaWallet = () => createSolanaBuyer({ secret: solana.secret, rpcUrl: solana.chain.rpcUrl })
const well: OrderResponse = async (ordered, response) =>
  json(response, 200, { payment_header: await ordered.sign() })

interface Run {
  readonly code: number
  // biome-ignore lint/suspicious/noExplicitAny: tests look into reports of every shape
  readonly report: any
  readonly stderr: string
}

/** Runs `tollgate pay` as a program would: no terminal, and only these variables. */
async function pay(
  url: string | undefined,
  flags: PayFlags,
  { signal, onLine }: { signal?: AbortSignal; onLine?: (line: string) => void } = {},
): Promise<Run> {
  const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()]
  let [out, errors] = ['', '']
  stdout.on('data', (chunk) => (out += chunk))
  stderr.on('data', (chunk) => {
    errors += chunk
    onLine?.(String(chunk))
  })
  const env = { TOLLGATE_HOME: home }
  const code = await runPay(url, flags, { stdin, stdout, stderr, env, ...(signal && { signal }) })
  return { code, report: JSON.parse(out), stderr: errors }
}

async function shop(t: Test, parts: Partial<FakeVaultOptions> = {}) {
  const seller = await startSeller(evm.honest)
  t.teardown(() => seller.close())
  const vault = await startFakeVault(t, {
    wallet: evmWallet,
    chains: ['ethereum', 'base', 'base-sepolia'],
    order: well,
    ...parts,
  })
  const buy = (flags: PayFlags = {}, more?: Parameters<typeof pay>[2]) =>
    pay(seller.url, { vault: vault.url, rpc: evm.chain.rpcUrl, ...flags }, more)
  return { seller, vault, buy }
}

t.test('a vault is told exactly what to pay, and what it signed buys the call', async (t) => {
  const { seller, vault, buy } = await shop(t)
  const before = await evm.chain.balanceUsdc(evm.buyer)
  const { code, report } = await buy({ vaultTokenFile: secret('vat_secret\n') })
  t.match({ code, report }, { code: 0, report: { outcome: 'paid', isVerified: true, charged: 'yes' } })
  t.equal(before - (await evm.chain.balanceUsdc(evm.buyer)), 10_000n)
  t.equal(vault.orders.length, 1)
  const [{ headers, body }] = vault.orders as [(typeof vault.orders)[0]]
  t.match(headers, { authorization: 'Bearer vat_secret', prefer: 'wait=0', 'idempotency-key': /^pay_/ })
  t.match(body, { max_amount: '0.01', network: evm.chain.network, url: seller.url })
  t.equal(body.payment_required.accepts.length, 1)
  t.strictSame([...vault.requests].sort(), [
    'GET /address/base',
    'GET /address/base-sepolia',
    'GET /address/ethereum',
    'GET /v1/capabilities',
  ])
  t.strictSame(readdirSync(join(home, 'payments')), [], 'nothing is left to go on with')
})

t.test('the same on Solana', async (t) => {
  const vault = await startFakeVault(t, { wallet: solanaWallet, chains: ['solana-devnet'], order: well })
  const seller = await startSeller(solana.honest)
  t.teardown(() => seller.close())
  const before = solana.chain.balanceUsdc(solana.buyer)
  const { report } = await pay(seller.url, { vault: vault.url, rpc: solana.chain.rpcUrl })
  t.match(report, { outcome: 'paid', isVerified: true })
  t.equal(before - solana.chain.balanceUsdc(solana.buyer), 10_000n)
})

t.test('where the vault gives no wallet for the offer, its owner is told what to add', async (t) => {
  const { buy } = await shop(t, { wallet: solanaWallet, chains: ['solana-devnet'] })
  const { report } = await buy()
  t.match(report, {
    outcome: 'refused',
    message: /no EVM wallet \(the vault's owner can add the scope wallet\.base\)/,
  })
  t.notMatch(report.message, /key/i)
})

t.test('what a vault gave is never sent when it pays anything but the offer', async (t) => {
  const other = generatePrivateKey()
  const bent: [string, OrderResponse][] = [
    ['to somebody else', signed({ payTo: elsewhere })],
    ['more', signed({ amount: '10001' })],
    ['less', signed({ amount: '9999' })],
    ['for another resource', signed({}, { resource: { url: 'https://evil.example/' } })],
    ['for another entry', signed({}, { accepted: { scheme: 'exact' } })],
    ['in another version', signed({}, { x402Version: 1 })],
    ['with more around it', signed({}, { extensions: {} })],
    ['with more in it', mended((payload) => ({ ...payload, permit: 1 }))],
    ['by no signature', mended((payload) => ({ ...payload, signature: `0x${'00'.repeat(65)}` }))],
    [
      'from another wallet',
      async (ordered, response) => {
        const wallet = createEvmBuyer({ privateKey: other, rpcUrl: evm.chain.rpcUrl })
        await evm.chain.mintUsdc(wallet.address as `0x${string}`, 10_000n)
        const theirs = await startFakeVault(t, { wallet: () => wallet, chains: [], order: well })
        const again = await fetch(`${theirs.url}/v1/vault/sign-payment`, {
          method: 'POST',
          body: JSON.stringify(ordered.body),
        })
        json(response, 200, (await again.json()) as object)
      },
    ],
    [
      'with another time',
      mended(({ authorization, ...rest }) => ({
        ...rest,
        authorization: { ...(authorization as object), validBefore: '99999999999' },
      })),
    ],
    ['in no header', (_ordered, response) => json(response, 200, { payment_header: 7 })],
    ['in a broken header', (_ordered, response) => json(response, 200, { payment_header: 'e30' })],
  ]
  for (const [what, order] of bent) {
    const { seller, buy } = await shop(t, { order })
    const { code, report } = await buy()
    t.match({ code, report }, { code: 3, report: { outcome: 'refused', charged: 'no', attempts: 0 } }, what)
    t.match(report.message, /not sent/, what)
    t.strictSame(seller.paid(), [], what)
  }
  t.strictSame(readdirSync(join(home, 'payments')), [])
})

t.test('and on Solana: another payee, another amount, another fee payer', async (t) => {
  const [payee, feePayer] = [Keypair.generate(), Keypair.generate()].map((pair) => pair.publicKey.toBase58())
  solana.chain.createAta(payee!)
  for (const change of [{ payTo: payee }, { amount: '10001' }, { extra: { feePayer } }]) {
    const order = signed(change)
    const vault = await startFakeVault(t, { wallet: solanaWallet, chains: ['solana-devnet'], order })
    const seller = await startSeller(solana.honest)
    t.teardown(() => seller.close())
    const { code, report } = await pay(seller.url, { vault: vault.url, rpc: solana.chain.rpcUrl })
    t.match({ code, report }, { code: 3, report: { outcome: 'refused' } }, JSON.stringify(change))
    t.strictSame(seller.paid(), [])
  }
})

t.test('each way in which a vault says no has its outcome and exit code, and nothing is paid', async (t) => {
  for (const [status, error, code, outcome] of [
    [403, 'APPROVAL_DENIED', 10, 'vault_refused'],
    [403, 'SCOPE_DENIED', 10, 'vault_refused'],
    [409, 'APPROVAL_RESOLVED', 10, 'vault_refused'],
    [403, 'BUDGET_EXCEEDED_TX', 11, 'over_budget'],
    [403, 'BUDGET_EXCEEDED_DAILY', 11, 'over_budget'],
    [423, 'VAULT_LOCKED', 12, 'vault_locked'],
    [410, 'APPROVAL_EXPIRED', 14, 'vault_unanswered'],
    [400, 'VALIDATION_ERROR', 3, 'refused'],
    [503, 'CHAIN_UNAVAILABLE', 3, 'refused'],
    [500, 'INTERNAL_ERROR', 13, 'vault_unavailable'],
    [404, '', 13, 'vault_unavailable'],
  ] as const) {
    const order: OrderResponse = (_ordered, response) =>
      error === '' ? json(response, status, {}) : vaultError(response, status, error)
    const { seller, vault, buy } = await shop(t, { order })
    const run = await buy()
    t.match(
      run,
      { code, report: { outcome, exitCode: code, charged: 'no', payment: { amount: '0.01' } } },
      error,
    )
    t.equal(vault.orders.length, 1, `${error} is final`)
    t.strictSame(seller.paid(), [])
  }
})

t.test('a vault that is away, locked or somebody else is told before the seller is asked', async (t) => {
  const { seller, vault, buy } = await shop(t)
  await vault.stop()
  t.match(await buy(), {
    code: 13,
    report: { outcome: 'vault_unavailable', message: /could not be reached/ },
  })
  await vault.start()

  const locked = await shop(t, { address: (response) => vaultError(response, 423, 'VAULT_LOCKED') })
  t.match(await locked.buy(), { code: 12, report: { outcome: 'vault_locked' } })
  const ungranted = await shop(t, { address: (response) => vaultError(response, 403, 'SCOPE_DENIED') })
  t.match(await ungranted.buy(), { code: 10, report: { outcome: 'vault_refused', message: /wallet/ } })
  const stranger = await shop(t, { address: (response) => vaultError(response, 401, 'UNAUTHORIZED') })
  t.match(await stranger.buy(), { code: 2, report: { outcome: 'usage', message: /TOLLGATE_VAULT_TOKEN/ } })
  const page = await shop(t, { address: (response) => json(response, 200, { address: '<html>' }) })
  t.match(await page.buy(), { code: 13, report: { outcome: 'vault_unavailable', message: /not a vault/ } })
  for (const one of [seller, locked.seller, ungranted.seller, stranger.seller, page.seller])
    t.strictSame(one.received, [])
})

t.test(
  'while the owner is asked, the same request comes again until it is decided, over a restart too',
  async (t) => {
    let times = 0
    const restarted = Promise.withResolvers<void>()
    const order: OrderResponse = async (ordered, response) => {
      if (++times === 2) {
        response.destroy()
        await vault.stop()
        await vault.start()
        return restarted.resolve()
      }
      if (times === 4) return vaultError(response, 423, 'VAULT_LOCKED')
      if (times === 5) return vaultError(response, 504, 'OUTCOME_UNKNOWN')
      if (times === 6) return well(ordered, response)
      json(response, 202, {
        status: 'pending',
        approval_id: 'apr_1',
        expires_at: new Date(Date.now() + 300_000).toISOString(),
        poll: '/v1/vault/approvals/apr_1',
      })
    }
    const { vault, buy } = await shop(t, { order })
    const { report, stderr } = await buy()
    await restarted.promise
    t.match(report, { outcome: 'paid', isVerified: true })
    t.equal(times, 6)
    t.equal(new Set(vault.orders.map(({ headers }) => headers['idempotency-key'])).size, 1)
    t.strictSame(
      vault.orders.map(({ headers }) => headers['prefer']),
      ['wait=0', ...Array(5).fill('wait=25')],
      'who it waits for is known at once',
    )
    t.equal(new Set(vault.orders.map(({ body }) => JSON.stringify(body))).size, 1)
    t.equal(stderr.match(/Waiting for the owner: tollgate vault approve apr_1\n/g)?.length, 1)
  },
)

t.test('who stops while the owner is asked takes the question back', async (t) => {
  const controller = new AbortController()
  const order: OrderResponse = (_ordered, response) => {
    const expires_at = new Date(Date.now() + 300_000).toISOString()
    json(response, 202, { status: 'pending', approval_id: 'apr_2', expires_at })
  }
  const { seller, vault, buy } = await shop(t, { order })
  const { code, report } = await buy(
    {},
    { signal: controller.signal, onLine: (line) => /apr_2/.test(line) && controller.abort() },
  )
  t.match(
    { code, report },
    { code: 14, report: { outcome: 'vault_unanswered', message: /Nothing was paid/ } },
  )
  t.ok(vault.requests.includes('POST /v1/vault/approvals/apr_2/cancel'))
  t.strictSame(seller.paid(), [])
})

t.test('flags that do not go together, and tokens that others may read, are refused', async (t) => {
  const { seller, vault, buy } = await shop(t)
  const open = secret('vat_x')
  chmodSync(open, 0o644)
  for (const [flags, message] of [
    [{ keyFile: 'k' }, /--vault or --key-file/],
    [{ vault: 'http://vault.example' }, /--vault/],
    [{ vault: 'ftp://127.0.0.1' }, /--vault/],
    [{ vaultTokenFile: open }, /chmod 600/],
    [{ vaultTokenFile: secret('two words') }, /form/],
    [{ vaultTokenFile: join(home, 'none') }, /opened/],
  ] as const) {
    const { code, report } = await buy(flags)
    t.match({ code, report }, { code: 2, report: { outcome: 'usage', message } })
  }
  const alone = await pay(seller.url, { vaultTokenFile: open })
  t.match(alone, { code: 2, report: { message: /--vault-token-file works only with --vault/ } })
  t.strictSame([vault.requests, seller.received], [[], []])
})

function secret(text: string): string {
  const path = join(mkdtempSync(join(home, 'secret-')), 'token')
  writeFileSync(path, text, { mode: 0o600 })
  return path
}

function signed(change: object, parts?: object): OrderResponse {
  return async (ordered, response) =>
    json(response, 200, { payment_header: await ordered.sign(change, parts) })
}

/** Signed correctly, then changed. */
function mended(change: (payload: Record<string, unknown>) => object): OrderResponse {
  return async (ordered, response) => {
    const header = JSON.parse(Buffer.from(await ordered.sign(), 'base64').toString('utf8'))
    const bent = { ...header, payload: change(header.payload) }
    json(response, 200, { payment_header: Buffer.from(JSON.stringify(bent)).toString('base64') })
  }
}
