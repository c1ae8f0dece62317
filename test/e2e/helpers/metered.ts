import { x402Client, x402HTTPClient } from '@x402/core/client'
import { UptoEvmScheme } from '@x402/evm/upto/client'
import { wrapFetchWithPayment } from '@x402/fetch'
import type { Test } from 'tap'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import type { LocalEvmOptions } from '../../../localnet/evm/startLocalEvm.ts'
import { read } from './buyers.ts'
import { startChains } from './chains.ts'
import { patient } from './config.ts'
import { startProduct } from './product.ts'

/** A product that sells a link at most for $0.01, and what its API states in each response. */
export async function startMetered(t: Test, evm: LocalEvmOptions = {}, latencyMs = 0) {
  const chains = await startChains(t, { evm })
  const [chain] = chains.both
  const parts = {
    evm: { settleTimeoutMs: patient.settleTimeoutMs },
    pluginOptions: { upstream: patient.upstream },
  }
  const product = await startProduct(t, parts, chains)
  if (latencyMs > 0) chain.rpc.add('*', { kind: 'delay', ms: latencyMs })
  const url = await product.addLink('metered', '0.01', {
    price: { upTo: '0.01', by: 'header', otherwise: '0.01' },
  })
  const { api } = product
  /**
   * An unmodified client of scheme `upto`, registered as its documentation says. With a node, it allows Permit2 by a permit if the
   * offer accepts one.
   */
  const newUptoBuyer = async (options?: { readonly rpcUrl: string }) => {
    const account = privateKeyToAccount(generatePrivateKey())
    await chains.evm.mintUsdc(account.address, 1_000_000n)
    const client = new x402HTTPClient(
      new x402Client().register(chain.network, new UptoEvmScheme(account, options)),
    )
    const pay = wrapFetchWithPayment(fetch, client)
    return { address: account.address, pay: async (of: string) => read(await pay(of)) }
  }
  const states = (amount: string) => {
    api.answerWith((_request, response) => {
      response.writeHead(200, {
        'content-type': 'application/json',
        'settlement-overrides': JSON.stringify({ amount }),
      })
      response.end('{"metered":true}')
    })
  }
  return { ...product, chains, chain, url, newUptoBuyer, states }
}

/** 20 calls of two buyers at once are each charged what they have used. */
export async function buyTwenty(t: Test, evm: LocalEvmOptions, latencyMs: number) {
  const f = await startMetered(t, evm, latencyMs)
  const buyers = await Promise.all([f.newUptoBuyer(), f.newUptoBuyer()])
  for (const { address } of buyers) await f.chains.evm.allowPermit2(address)
  f.states('2500')
  const calls = await Promise.all(Array.from({ length: 20 }, (_, n) => buyers[n % 2]!.pay(`${f.url}?n=${n}`)))
  for (const call of calls)
    t.match(call, { status: 200, receipt: { success: true, amount: '2500' } }, call.text)
  t.equal(new Set(calls.map(({ receipt }) => receipt!.transaction)).size, 20)
  t.equal(await f.chain.balance(f.payTo(f.chain)), 50_000n)
  t.equal(f.api.calls.length, 20)
}

/** The first calls of 20 buyers at once, none of whom has allowed Permit2, are each charged what they have used. */
export async function buySponsored(t: Test, evm: LocalEvmOptions, latencyMs: number) {
  const f = await startMetered(t, evm, latencyMs)
  const { rpcUrl } = f.chains.evm
  const buyers = await Promise.all(Array.from({ length: 20 }, () => f.newUptoBuyer({ rpcUrl })))
  f.states('2500')
  const calls = await Promise.all(buyers.map(({ pay }, n) => pay(`${f.url}?n=${n}`)))
  for (const call of calls)
    t.match(call, { status: 200, receipt: { success: true, amount: '2500' } }, call.text)
  t.equal(new Set(calls.map(({ receipt }) => receipt!.transaction)).size, 20)
  t.equal(await f.chain.balance(f.payTo(f.chain)), 50_000n)
  t.equal(f.api.calls.length, 20)
}
