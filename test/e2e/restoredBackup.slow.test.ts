import { Keypair } from '@solana/web3.js'
import t from 'tap'
import { encodeFunctionData, type Hex, multicall3Abi } from 'viem'
import { readAuthorization } from '../../adapters/chains/evm/check/authorization.ts'
import { payCall } from '../../adapters/chains/evm/check/transferCalls.ts'
import { multicall3 } from '../../adapters/chains/evm/settle/multicall.ts'
import type { Finding } from '../../cli/runtime/findings.ts'
import { readConfig } from '../../cli/runtime/readConfig.ts'
import { startTollgate } from '../../cli/runtime/startTollgate.ts'
import { silentLog } from '../../core/ports/log.ts'
import { tokenProgramAddress } from '../../core/solana/addresses.ts'
import { decodeHeader } from '../../core/x402/header.ts'
import { sendSolana, sendUsdc, transferInstruction } from '../helpers/localnet/sendToken.ts'
import { answerWell } from './helpers/api.ts'
import { type Bought, newBuyer, present } from './helpers/buyers.ts'
import { type Chain, startChains } from './helpers/chains.ts'
import { runTollgate } from './helpers/child.ts'
import { eventually } from './helpers/eventually.ts'
import { startReferenceFacilitator } from './helpers/facilitator.ts'
import { startProduct } from './helpers/product.ts'
import { takeCopy } from './helpers/restoredBackup.ts'
import { sendBack } from './helpers/sendBack.ts'

// A database that is set back to an restored from an older copy after sales, as by a restored backup or a standby that lagged: the sales
// are on chain and in no purchase, and `tollgate doctor` finds each of them, and nothing else.
const product = await startProduct(t, {
  evm: { facilitator: { privateKey: '${TOLLGATE_FACILITATOR_EVM_KEY}', batchWindowMs: 200 } },
})
const { api, chains, config, payTo, store, wallets } = product
const [evm, solana] = chains.both
const [stranger] = await chains.evm.rpc<[Hex]>('eth_accounts')
const urls = {
  evm: await product.addLink('old-evm'),
  solana: await product.addLink('old-solana'),
}
const lost: Record<'evm' | 'solana', { readonly payer: string; readonly transaction: string }[]> = {
  evm: [],
  solana: [],
}

async function buy(chain: typeof evm, n: string): Promise<Bought & { readonly payer: string }> {
  const buyer = await newBuyer(chains, chain)
  const target = `${urls[chain.name]}?n=${n}`
  const bought = await present(target, await buyer.sign(target))
  if (bought.status !== 200) throw new Error(bought.text)
  return { ...bought, payer: buyer.address }
}

/** Whose seller answers none of them before all have come. */
async function buyTogether(
  chain: typeof evm,
  name: string,
  count: number,
): Promise<Awaited<ReturnType<typeof buy>>[]> {
  const all = Promise.withResolvers<void>()
  let come = 0
  api.answerWith(async (request, response) => {
    if (++come === count) all.resolve()
    await all.promise
    answerWell(request, response)
  })
  const bought = await Promise.all(Array.from({ length: count }, (_, n) => buy(chain, `${name}-${n}`)))
  api.answerWith(answerWell)
  return bought
}

const ofMissing = (findings: readonly Finding[]) =>
  findings.filter(({ subject }) => subject === 'missing sales')
const named = (findings: readonly Finding[], network: string) =>
  findings
    .flatMap(({ payment }) => (payment?.network === network ? payment : []))
    .map(({ payer, transaction }) => ({ payer, transaction }))
const byPayer = (a: { readonly payer: string }, b: { readonly payer: string }) => (a.payer < b.payer ? -1 : 1)

/** Another party's way of landing authorizations. */
function transferOf(payment: string): Hex {
  const decoded = decodeHeader(payment) as unknown as { value: { payload: unknown } }
  const read = readAuthorization(decoded.value.payload)
  if (!read.ok) throw new Error(read.message)
  return payCall(evm.usdc, read.authorization, undefined).data as Hex
}

/** Money that sellers' wallets get and that is no sale of this installation. */
async function otherBusiness(): Promise<void> {
  const [friend, sol, other] = await Promise.all([
    newBuyer(chains, evm),
    Keypair.generate(),
    newBuyer(chains, evm),
  ])
  await sendUsdc(chains.evm, friend.address as Hex, wallets.base as Hex, 10_000n)
  await sendUsdc(chains.evm, friend.address as Hex, wallets.base as Hex, 0n)
  chains.solana.mintUsdc(sol.publicKey.toBase58(), 10_000n)
  const moved = { from: sol.publicKey.toBase58(), to: wallets.solana, amountAtomic: 10_000n }
  await sendSolana(
    chains.solana,
    [sol],
    [transferInstruction(chains.solana, tokenProgramAddress.token, moved)],
  )
  // Signed for the same seller, and landed by another shop's settling key.
  const elsewhere = await other.sign(urls.evm)
  await chains.evm.send({ from: stranger, to: evm.usdc as Hex, data: transferOf(elsewhere) })
}

t.test('while the database is its newest self, nothing is missing, whoever landed what', async (t) => {
  const sales = await buyTogether(evm, 'together', 4)
  const landed = new Set(sales.map(({ receipt }) => receipt!.transaction))
  t.ok(landed.size < sales.length, 'some were settled by one transaction')
  for (const n of [0, 1]) await buy(solana, `before-${n}`)
  await otherBusiness()

  // An observer lands our buyer's authorisation first.
  const buyer = await newBuyer(chains, evm)
  const target = `${urls.evm}?n=observed`
  const payment = await buyer.sign(target)
  const data = encodeFunctionData({
    abi: multicall3Abi,
    functionName: 'aggregate3',
    args: [[{ target: evm.usdc as Hex, allowFailure: false, callData: transferOf(payment) }]],
  })
  api.answerWith(async (_request, response) => {
    await chains.evm.send({ from: stranger, to: multicall3, data })
    response.writeHead(200, { 'content-type': 'application/json' }).end('{"ok":true}')
  })
  const observed = await present(target, payment)
  t.equal(observed.status, 200, observed.text)
  api.answerWith(answerWell)

  // And a seller gives money back.
  for (const chain of chains.both) {
    const { body, payer } = await buy(chain, 'refunded')
    const txHash = await sendBack(chains, chain, wallets, payer, 10_000n)
    // Until it has the confirmations that a refund needs, the seller is told to try again shortly.
    const refunded = await eventually(async () => {
      const response = await fetch(`${config.url}/api/v1/purchases/${body._svc!.purchaseId}/refunds`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization: `Bearer ${store.apiKey}` },
        body: JSON.stringify({ txHash }),
      })
      return response.status === 409 ? undefined : response
    })
    t.equal(refunded.status, 200, await refunded.text())
  }
  // One that is on chain, and that the ledger does not contain yet.
  const lift = evm.rpc.add(evm.methods.status, { kind: 'refuse' })
  const late = await newBuyer(chains, evm)
  const [open, signed] = [`${urls.evm}?n=open`, await late.sign(`${urls.evm}?n=open`)]
  t.equal((await present(open, signed)).status, 503)
  t.match(ofMissing(await product.doctor()), [{ ok: true, message: /: none; 8 payments/ }, { ok: true }])
  lift()
  const answer = await eventually(async () => {
    const { status, text } = await present(open, signed)
    return status === 503 ? undefined : { status, text }
  })
  t.equal(answer.status, 200, answer.text)
  const findings = await product.doctor()
  t.strictSame(
    findings.filter(({ ok }) => !ok),
    [],
  )
  t.match(
    ofMissing(findings),
    [
      { ok: true, message: new RegExp(`^${evm.network}: none; 8 payments since 20`) },
      { ok: true, message: new RegExp(`^${solana.network}: none; 3 payments since 20`) },
    ],
    'all of them were looked at',
  )
  t.equal(ofMissing(findings).length, 2)
})

t.test('each sale that the older copy lacks is found, and nothing else', async (t) => {
  // A payment that the copy has as claimed: when it is put back, the claim is freed, and was charged all the same.
  evm.rpc.resetCounters()
  const release = evm.rpc.add(evm.methods.verify, { kind: 'hold' })
  const holder = await newBuyer(chains, evm)
  const target = `${urls.evm}?n=claimed`
  const payment = await holder.sign(target)
  // The node is given up where the copy takes long; the buyer tries again.
  const claimed = eventually(async () => {
    const bought = await present(target, payment)
    return bought.status === 503 ? undefined : bought
  })
  await evm.rpc.whenCalled(evm.methods.verify)
  const setBack = await takeCopy(t, config, chains.env)
  release()
  const { receipt, status, text } = await claimed
  t.equal(status, 200, text)
  lost.evm.push({ payer: holder.address, transaction: receipt!.transaction! })
  for (const chain of chains.both) {
    const alone = await buy(chain, 'lost')
    const together = await buyTogether(chain, 'lost', 5)
    for (const { payer, receipt } of [alone, ...together])
      lost[chain.name].push({ payer, transaction: receipt!.transaction! })
  }
  t.ok(
    new Set(lost.evm.map(({ transaction }) => transaction)).size < lost.evm.length,
    'in transactions of several',
  )
  await otherBusiness()
  await product.tollgate.close()
  await setBack()

  const findings = ofMissing(await product.doctor())
  for (const chain of chains.both) {
    t.strictSame(named(findings, chain.network).sort(byPayer), lost[chain.name].toSorted(byPayer), chain.name)
    const { length } = lost[chain.name]
    const summary = findings.find(({ message }) => message.startsWith(`${chain.network}: ${length} payments`))
    t.match(summary, {
      ok: false,
      message: new RegExp(
        `${length} payments of 0\\.0${length} USDC in total, settled since 20.*restored from an older copy`,
      ),
    })
  }
  t.match(
    findings.find(({ payment }) => payment?.network === evm.network),
    { ok: false, payment: { amountAtomic: '10000', asset: evm.usdc, payTo: payTo(evm) } },
  )
  t.match(
    findings.find(({ payment }) => payment?.network === solana.network),
    { ok: false, payment: { amountAtomic: '10000', asset: solana.usdc, payTo: payTo(solana) } },
  )

  t.equal(findings.filter(({ ok }) => !ok).length, 2 + 13, 'two that sum up, and one for each')
  t.match(
    findings.filter(({ message }) => message.includes('sent by other accounts')),
    [{ ok: true, isWarning: true, message: /: 2 more payments by authorization/ }],
    'what is another shop’s is said where something is missing, and is no finding',
  )
  const result = await runTollgate(t, ['doctor', '--config', config.file, '--json'], chains.env).exited
  t.equal(result.code, 1)
  t.equal(result.stdout.split('"payment":').length - 1, 13, '--json names every one')
  const without = await runTollgate(t, ['doctor', '--config', config.file, '--no-chain'], chains.env).exited
  t.notMatch(without.stdout, /missing sales/)
})

t.test(
  'a gateway that starts on an older copy says so, sells all the same, and they stay found',
  async (t) => {
    const errors: object[] = []
    const log = {
      ...silentLog,
      error: (facts: object, words: string) => void errors.push({ ...facts, words }),
    }
    const again = await startTollgate(await readConfig(config.file, chains.env), { env: chains.env, log })
    t.teardown(() => again.close())
    await eventually(async () => (errors.length > 0 ? true : undefined))
    t.match(errors, [{ network: evm.network, words: /restored from an older copy.*Run tollgate doctor/ }])
    t.equal(errors.length, 1)
    for (const chain of chains.both) await buy(chain, 'after')
    const findings = ofMissing(await product.doctor())
    for (const chain of chains.both)
      t.strictSame(
        named(findings, chain.network).sort(byPayer),
        lost[chain.name].toSorted(byPayer),
        chain.name,
      )
  },
)

t.test(
  'what a facilitator has settled and the older copy lacks is a warning: it settles for others as well',
  async (t) => {
    const chains = await startChains(t)
    const facilitator = await startReferenceFacilitator(t, chains)
    const remote = { facilitator: { url: facilitator.url } }
    const product = await startProduct(t, { evm: remote, solana: remote }, chains)
    const buyFrom = async (chain: Chain, n: string) => {
      const buyer = await newBuyer(chains, chain)
      const target = `${await product.addLink(`remote-${chain.name}-${n}`)}?n=1`
      const bought = await present(target, await buyer.sign(target))
      if (bought.status !== 200) throw new Error(bought.text)
      return { payer: buyer.address, transaction: bought.receipt!.transaction! }
    }
    for (const chain of chains.both) await buyFrom(chain, 'kept')
    const setBack = await takeCopy(t, product.config, chains.env)
    const sales = await Promise.all(chains.both.map((chain) => buyFrom(chain, 'lost')))
    const well = ofMissing(await product.doctor())
    t.match(
      well,
      chains.both.map(({ network }) => ({ message: new RegExp(`^${network}: none; 2 payments since`) })),
    )
    t.equal(well.length, 2)
    await product.tollgate.close()
    await setBack()
    const findings = ofMissing(await product.doctor())
    t.ok(findings.every(({ ok, isWarning }) => ok && isWarning))
    for (const [i, { network }] of chains.both.entries()) {
      t.strictSame(named(findings, network), [sales[i]])
      t.match(
        findings.find(({ message }) => message.startsWith(`${network}: 1 payment of 0.01 USDC`))?.message,
        /by the facilitator's keys.*another shop/,
      )
    }
  },
)
