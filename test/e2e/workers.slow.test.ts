import { Keypair } from '@solana/web3.js'
import t from 'tap'
import { tokenProgramAddress } from '../../core/solana/addresses.ts'
import { connectMcp } from '../helpers/admin-api/mcp/connectMcp.ts'
import { readEvents } from '../helpers/admin-api/readEvents.ts'
import { signAgain, signSolana, transferInstruction } from '../helpers/localnet/sendToken.ts'
import { startApi } from './helpers/api.ts'
import { newBuyer, present, read } from './helpers/buyers.ts'
import { newSellerWallets, startChains } from './helpers/chains.ts'
import { runTollgate, startGateway } from './helpers/child.ts'
import { writeConfig } from './helpers/config.ts'

const chains = await startChains(t)
const api = await startApi(t)
const log = { level: 'info', format: 'json' }
const config = await writeConfig(t, chains, { sections: { log } })
const operatorToken = 'the-operator-of-this-test-is-nobody-else'
const env = { ...chains.env, OPERATOR_TOKEN: operatorToken }
config.rewrite({
  gateway: { port: Number(new URL(config.url).port), workers: 2 },
  operator: { token: '${OPERATOR_TOKEN}' },
})

async function tollgate(args: readonly string[], more: Record<string, string> = {}) {
  const { code, stdout, stderr } = await runTollgate(t, args, { ...env, ...more }).exited
  t.equal(code, 0, stderr)
  return stdout.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line)]))
}

t.test('two gateway processes sell for one store with one settling key per chain', async (t) => {
  const { base, solana } = newSellerWallets(chains)
  const owner = ['--base', base, '--solana', solana, '--config', config.file]
  const [{ apiKey }] = await tollgate(['store', 'create', 'fleet', ...owner])
  const gateway = await startGateway(t, config, env)
  const [{ fullUrl: url, slug }] = await tollgate(
    ['link', 'add', api.url, '--price', '0.01', '--gateway', config.url, '--json'],
    { TOLLGATE_API_KEY: apiKey },
  )
  const offered = await (await fetch(url)).text()
  t.match(offered, `"description":"${slug}"`, 'without a title, the slug is the title')
  t.notMatch(offered, new URL(api.url).host, 'where the API is stays its seller’s')
  const buyers = await Promise.all([...chains.both, ...chains.both].map((chain) => newBuyer(chains, chain)))

  await t.test('different payments at once are all served and all paid', async (t) => {
    const calls = buyers.flatMap((buyer) =>
      [0, 1, 2, 3, 4].map((n) => buyer.fetchV2(`${url}?n=${n}`).then(read)),
    )
    const bought = await Promise.all(calls)
    t.strictSame(
      bought.map((b) => b.status),
      calls.map(() => 200),
    )
    const notified = bought.map((b) => b.receipt?.transaction).sort()
    const transfers = await Promise.all([
      chains.both[0].transfersTo(base),
      chains.both[1].transfersTo(solana),
    ])
    t.strictSame(notified, transfers.flat().sort(), 'each by a transfer of its own')
    for (const chain of chains.both) {
      t.equal(await chain.balance(chain.name === 'evm' ? base : solana), 100_000n, `${chain.name}: ten sales`)
    }
  })

  await t.test('the operator follows the calls of all processes, and sees keys and programs', async (t) => {
    const page = { origin: config.url, 'content-type': 'application/json' }
    const signedIn = await fetch(`${config.url}/api/operator/session`, {
      ...{ method: 'POST', headers: page, body: JSON.stringify({ token: operatorToken }) },
    })
    t.equal(signedIn.status, 201)
    const headers = { cookie: signedIn.headers.get('set-cookie')!.split(';')[0]! }
    const ask = async (path: string) => {
      const response = await fetch(`${config.url}/api/operator/${path}`, { headers })
      // biome-ignore lint/suspicious/noExplicitAny: what it holds is asserted below
      return ((await response.json()) as { data: any }).data
    }
    const stream = await fetch(`${config.url}/api/operator/live`, { headers })
    t.equal(stream.headers.get('content-type'), 'text/event-stream; charset=utf-8')
    const rollups = { asked: 0, paid: 0, answered: 0 }
    const calls = 12
    let isFirst = true
    for await (const { data } of readEvents<typeof rollups & { processes: number; silent: number }>(stream)) {
      for (const kind of ['asked', 'paid', 'answered'] as const) rollups[kind] += data[kind]
      if (data.silent === 0) t.equal(data.processes, 3, 'the first process and two workers')
      if (isFirst) {
        // Connections of their own, which the workers share out between them.
        const unpaid = Array.from({ length: calls }, () => fetch(url, { headers: { connection: 'close' } }))
        for (const response of await Promise.all(unpaid)) t.equal(response.status, 402)
        t.equal((await read(await buyers[0]!.fetchV2(`${url}?n=live`))).status, 200)
      }
      isFirst = false
      if (rollups.answered >= 1 && rollups.asked >= calls) break
    }
    // The buyer asks for the price first.
    t.strictSame(rollups, { asked: calls + 1, paid: 1, answered: 1 })

    const { rows } = await ask('settling')
    t.equal(rows.length, 2)
    const [evm, svm] = ['eip155:', 'solana:'].map((family) =>
      rows.find(({ network }: { network: string }) => network.startsWith(family)),
    )
    t.match(evm, { fault: null, lease: { state: 'held', isThis: true }, balance: /^\d+(\.\d+)? ETH$/ })
    t.ok(evm.nonce.mined >= 1 && evm.nonce.pending >= evm.nonce.mined, JSON.stringify(evm.nonce))
    t.not(evm.gasToday, '0 ETH')
    t.match(svm, { fault: null, lease: { state: 'any' }, balance: / SOL$/, nonce: null })
    for (const { paymentsLeft, address } of [evm, svm]) t.ok(BigInt(paymentsLeft) > 0n && address)

    const program = await ask(`program?link=${encodeURIComponent(url)}`)
    t.match(program.steps, [{ phase: 'guard', plugin: 'rate-limit' }])
    const limits = program.entries.find(({ plugin }: { plugin: string }) => plugin === 'rate-limit')
    t.match(limits, { links: null, paid: null })
    t.strictSame(
      limits.settings.filter(({ isDefault }: { isDefault: boolean }) => !isDefault),
      ['points', 'paymentPoints'].map((name) => ({ name, value: 1_000_000, isDefault: false })),
    )
    const [checked] = await tollgate(['check', '--json', '--config', config.file])
    t.strictSame(program.steps, checked.pipeline, 'as tollgate check has it')
    t.match(await ask('stores'), { rows: [{ username: 'fleet', links: 1 }], next: null })
  })

  await t.test('tools call links in the process without a listener, by the same books', async (t) => {
    const clients = await Promise.all([1, 2, 3].map(() => connectMcp(t, config.url)))
    for (const [i, chain] of chains.both.entries()) {
      const n = `tool-${chain.name}`
      const payTo = chain.name === 'evm' ? base : solana
      const before = await chain.balance(payTo)
      const callsBefore = api.calls.length
      const payment = await buyers[i]!.sign(`${url}?n=${n}`)
      const [byTool, overHttp] = await Promise.all([
        Promise.all(clients.map(({ call }) => call('call_link', { link: url, query: { n }, payment }))),
        Promise.all([1, 2, 3].map(() => present(`${url}?n=${n}`, payment))),
      ])
      for (const { structuredContent } of byTool)
        t.match(structuredContent, { status: 200, response: overHttp[0]!.body.data })
      for (const { text } of overHttp) t.equal(text, overHttp[0]!.text)
      t.equal((await chain.balance(payTo)) - before, 10_000n, chain.name)
      t.equal(api.calls.length - callsBefore, 1)
    }
  })

  await t.test(
    'a hundred presentations of one Solana payment, bare and in envelopes, are one sale',
    async (t) => {
      const chain = chains.both[1]
      const target = `${url}?n=bare-and-not`
      const signed = await buyers[1]!.sign(target)
      const { transaction } = JSON.parse(atob(signed)).payload
      const owner = Keypair.generate()
      chains.solana.mintUsdc(owner.publicKey.toBase58(), 1_000_000n)
      const own = await signSolana(
        chains.solana,
        [owner],
        [
          transferInstruction(chains.solana, tokenProgramAddress.token, {
            from: owner.publicKey.toBase58(),
            to: solana,
            amountAtomic: 10_000n,
          }),
        ],
      )
      const v1 = { x402Version: 1, scheme: 'exact', network: 'solana-devnet', payload: { transaction } }
      const forms = {
        cosigned: [
          { 'x-payment': transaction },
          { 'payment-signature': signed },
          { 'x-payment': btoa(JSON.stringify(v1)) },
        ],
        own: [{ 'x-payment': own.base64 }, { 'x-payment': signAgain(own, owner).base64 }],
      }
      for (const [name, headers] of Object.entries(forms)) {
        const before = await chain.balance(solana)
        const callsBefore = api.calls.length
        const calls = Array.from({ length: 100 }, (_, i) =>
          fetch(`${target}&of=${name}`, {
            headers: { ...headers[i % headers.length]!, connection: 'close' },
          }).then(read),
        )
        const responses = await Promise.all(calls)
        const sold = responses.filter(({ status }) => status === 200)
        t.ok(sold.length > 0, responses[0]!.text)
        t.equal(new Set(sold.map(({ body }) => body._svc?.purchaseId)).size, 1, 'one purchase')
        t.strictSame(
          responses.filter(({ status }) => ![200, 409, 503].includes(status)),
          [],
        )
        t.equal((await chain.balance(solana)) - before, 10_000n, 'one transfer')
        t.equal(api.calls.length - callsBefore, 1, 'one call')
      }
    },
  )

  await t.test(
    'a price that was changed holds in both processes, before they look for changes',
    async (t) => {
      const headers = { 'content-type': 'application/json', authorization: `Bearer ${apiKey}` }
      const api = `${config.url}/api/v1/links`
      const listed = (await (await fetch(api, { headers })).json()) as { data: { links: { id: string }[] } }
      const { id } = listed.data.links[0]!
      const offered = async () => {
        const response = await fetch(url, { headers: { connection: 'close' } })
        const { accepts } = (await response.json()) as { accepts: { amount: string }[] }
        return accepts[0]!.amount
      }
      const amounts: string[] = []
      for (const price of ['0.02', '0.03', '0.04', '0.01']) {
        const body = JSON.stringify({ price })
        t.equal((await fetch(`${api}/${id}`, { method: 'PATCH', headers, body })).status, 200)
        amounts.push(...(await Promise.all(Array.from({ length: 10 }, offered))).map((a) => `${price} ${a}`))
      }
      const right = ['0.02 20000', '0.03 30000', '0.04 40000', '0.01 10000']
      const stale = amounts.filter((amount) => !right.includes(amount))
      // The news and a call may meet on their ways; without the news about all of these forty are stale.
      t.ok(stale.length <= 10, `${stale.length} of ${amounts.length} calls at an old price`)
    },
  )

  await t.test('one payment at both processes at once buys one call', async (t) => {
    const target = `${url}?n=same`
    const payment = await buyers[0]!.sign(target)
    const before = api.calls.length
    const earned = await chains.both[0].balance(base)
    const responses = await Promise.all(Array.from({ length: 16 }, () => present(target, payment)))
    t.equal(api.calls.length - before, 1, 'the seller worked once')
    t.ok(
      responses.every((a) => a.status === 200 && a.text === responses[0]!.text),
      'everybody gets that answer',
    )
    t.equal((await chains.both[0].balance(base)) - earned, 10_000n, 'one transfer')
  })

  gateway.signal('SIGTERM')
  t.equal((await gateway.exited).code, 0, 'all processes end in order')
  const findings = await tollgate(['doctor', '--config', config.file])
  t.ok(
    findings.every((f) => f.ok),
    JSON.stringify(findings),
  )
})
