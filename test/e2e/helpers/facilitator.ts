import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { base58 } from '@scure/base'
import { createKeyPairSignerFromBytes } from '@solana/kit'
import { x402Facilitator } from '@x402/core/facilitator'
import { toFacilitatorEvmSigner } from '@x402/evm'
import { ExactEvmScheme } from '@x402/evm/exact/facilitator'
import { toFacilitatorSvmSigner } from '@x402/svm'
import { ExactSvmScheme } from '@x402/svm/exact/facilitator'
import type { Test } from 'tap'
import { createWalletClient, http, publicActions } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { baseSepolia } from 'viem/chains'
import type { Chains } from './chains.ts'

/** What becomes of a request: answered, acted on without an answer, refused by the machine in front, or failed inside. */
export type Mood = 'well' | 'silent' | 'away' | 'failing'

/** The reference facilitator for both chains behind HTTP, as an operator would rent it. */
export interface ReferenceFacilitator {
  readonly url: string
  /** How often a route was asked. */
  requests(route: 'verify' | 'settle' | 'supported'): number
  /** From now on; `silent` is about settlements only. */
  be(mood: Mood): void
}

export async function startReferenceFacilitator(
  t: Pick<Test, 'teardown'>,
  chains: Chains,
): Promise<ReferenceFacilitator> {
  const { evm, solana, env } = chains
  const [evmChain, solanaChain] = chains.both
  const account = privateKeyToAccount(env['TOLLGATE_FACILITATOR_EVM_KEY'] as `0x${string}`)
  const transport = http(evm.rpcUrl)
  const wallet = createWalletClient({ account, chain: baseSepolia, transport, pollingInterval: 50 })
  const client = { ...wallet.extend(publicActions), address: account.address }
  const feePayer = await createKeyPairSignerFromBytes(base58.decode(env['TOLLGATE_FACILITATOR_SOLANA_KEY']!))
  const facilitator = new x402Facilitator()
    .register(evmChain.network, new ExactEvmScheme(toFacilitatorEvmSigner(client as never)))
    .register(
      solanaChain.network,
      new ExactSvmScheme(toFacilitatorSvmSigner(feePayer, { defaultRpcUrl: solana.rpcUrl })),
    )

  const counts = new Map<string, number>()
  let mood: Mood = 'well'
  // One after the other: its wallet asks the node for the next nonce, and two at once would be told the same one.
  let settled: Promise<unknown> = Promise.resolve()
  const respond = async (route: string, text: string): Promise<unknown> => {
    if (route === 'supported') return facilitator.getSupported()
    const { paymentPayload, paymentRequirements } = JSON.parse(text)
    if (route === 'verify') return facilitator.verify(paymentPayload, paymentRequirements)
    const settle = () => facilitator.settle(paymentPayload, paymentRequirements)
    return (settled = settled.then(settle, settle))
  }
  const server = createServer(async (request, response) => {
    let text = ''
    for await (const chunk of request) text += chunk
    const route = request.url!.split('/').at(-1)!
    counts.set(route, (counts.get(route) ?? 0) + 1)
    if (mood === 'away') return response.writeHead(503).end()
    if (mood === 'failing') return response.writeHead(500).end('{"error":"out of order"}')
    const isSilent = mood === 'silent' && route === 'settle'
    const body = await respond(route, text).catch((error: Error) => ({ error: error.message }))
    if (isSilent) return
    return response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/x402`,
    requests: (route) => counts.get(route) ?? 0,
    be: (next) => {
      mood = next
    },
  }
}
