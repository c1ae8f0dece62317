// What a paid call with its settlement costs and how long it takes: `tollgate start` with the embedded facilitator on a
// local chain, an API that answers at once. In its first argument: SettledOptions. First one buyer alone, one call after
// the other; then many at once, each with a wallet of its own. Prints a SettledResult.

import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { PaymentRequired } from '@x402/core/types'
import { parse } from 'yaml'
import { startApi } from '../../test/e2e/helpers/api.ts'
import { type Buyer, newBuyer, present } from '../../test/e2e/helpers/buyers.ts'
import { newSellerWallets, startChains } from '../../test/e2e/helpers/chains.ts'
import { writeConfig } from '../../test/e2e/helpers/config.ts'
import { openStore } from '../../test/e2e/helpers/store.ts'
import { runLoad } from '../harness/load.ts'
import { startShipped } from '../harness/shipped.ts'

/** A node as if it were far away, and what it was asked so far. */
interface FarNode {
  readonly url: string
  /** HTTP requests and JSON-RPC calls; what a WebSocket carries is not counted. */
  asked(): { readonly requests: number; readonly calls: number }
  close(): void
}

/**
 * Stands in front of a node: bytes come out half a round trip after they went in, each way, in their order. It knows no
 * HTTP, so that nothing of it is a client's work but the waiting.
 */
async function startFarNode(nodeUrl: string, roundTripMs: number): Promise<FarNode> {
  const { hostname, port } = new URL(nodeUrl)
  const counted = { requests: 0, calls: 0 }
  const sockets = new Set<Socket>()
  const pass = (from: Socket, to: Socket, seen?: (chunk: Buffer) => void) => {
    const late = (act: () => void) => (roundTripMs === 0 ? act() : void setTimeout(act, roundTripMs / 2))
    from.on('data', (chunk: Buffer) => {
      seen?.(chunk)
      late(() => void (to.writable && to.write(chunk)))
    })
    from.on('end', () => late(() => to.end()))
    from.on('error', () => to.destroy())
    from.on('close', () => sockets.delete(from))
    sockets.add(from)
  }
  const server = createServer({ noDelay: true, allowHalfOpen: true }, (client) => {
    const node = connect({ host: hostname, port: Number(port), noDelay: true, allowHalfOpen: true })
    pass(client, node, (chunk) => {
      const text = chunk.toString('latin1')
      counted.requests += text.split('POST /').length - 1
      counted.calls += text.split('"method":"').length - 1
    })
    pass(node, client)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked: () => ({ ...counted }),
    close() {
      server.close()
      for (const socket of sockets) socket.destroy()
    },
  }
}

export interface SettledOptions {
  readonly chain: 'evm' | 'solana'
  /** What every request to the node takes beside the node's own time, in milliseconds. */
  readonly roundTripMs: number
  /** Of the one buyer. */
  readonly calls: number
  /** Buyers at once, none for no load. */
  readonly buyers: number
  /** Calls of all of them in each round; the first two rounds are the warm-up. */
  readonly callsOfRound: number
  readonly rounds: number
  /** Added to the environment of the gateway: `NODE_OPTIONS`, to look into it. */
  readonly env?: Readonly<Record<string, string>>
}

export interface SettledResult {
  /** Of each call of the one buyer, from the request to the last byte of the answer, in milliseconds. */
  readonly msOfCalls: readonly number[]
  /** Of each round with many buyers. */
  readonly rounds: readonly SettledRound[]
}

export interface SettledRound {
  /** CPU of all threads and processes of the gateway, in microseconds a call. */
  readonly cpuUs: number
  readonly callsPerSecond: number
  readonly p50Ms: number
  readonly requestsPerCall: number
  readonly rpcCallsPerCall: number
}

const options = JSON.parse(process.argv[2]!) as SettledOptions
const { chain: name, roundTripMs, calls, buyers: atOnce, callsOfRound, rounds: roundCount } = options
/** Calls that are not counted: code gets warm, and the gateway learns what the chain takes. */
const warmUp = 10
const warmUpRounds = 2
const oneUsdc = 1_000_000n
/** The chain, the API and the load share a machine: a limit of a test would be reached, and the call refused. */
const settleTimeoutMs = 60_000

const undo: (() => unknown)[] = []
const stage = { teardown: (step: () => unknown) => void undo.push(step) }
try {
  // Blocks at once on both: what is measured is not the chain's own time.
  const chains = await startChains(stage as never, { solana: { confirmedAfterSlots: 0 } })
  const chain = chains.both.find((one) => one.name === name)!
  const node = await startFarNode(chains[name].rpcUrl, roundTripMs)
  stage.teardown(node.close)
  const config = await writeConfig(stage as never, chains, {
    evm: { rpcUrls: [name === 'evm' ? node.url : chains.evm.rpcUrl], settleTimeoutMs },
    solana: { rpcUrls: [name === 'solana' ? node.url : chains.solana.rpcUrl], settleTimeoutMs },
  })
  const { plugins } = parse(readFileSync(config.file, 'utf8'))
  config.rewrite({
    plugins: plugins.map((one: object) =>
      'use' in one && one.use === 'upstream' ? { use: 'upstream' } : one,
    ),
  })
  const api = await startApi(stage as never)
  const store = await openStore(config, chains.env, newSellerWallets(chains))
  const env = { ...chains.env, ...options.env }
  const gateway = await startShipped(config.file, Number(new URL(config.url).port), env)
  stage.teardown(gateway.stop)
  const url = await store.addLink({ url: api.url, slug: 'paid', price: '0.01' })
  const offer = await offerOf(url)

  const buyer = await newBuyer(chains, chain)
  const msOfCalls: number[] = []
  for (let n = 0; n < (calls === 0 ? 0 : warmUp + calls); n++) {
    const payment = await buyer.sign(url)
    const startedMs = performance.now()
    const { status, text } = await present(url, payment)
    const tookMs = performance.now() - startedMs
    if (status !== 200)
      throw new Error(`Expected a paid call to be answered with 200, got ${status}: ${text}`)
    if (n >= warmUp) msOfCalls.push(tookMs)
  }

  const folder = mkdtempSync(join(tmpdir(), 'tollgate-bench-'))
  stage.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const buyers: Buyer[] = []
  for (let n = 0; n < atOnce; n++) buyers.push(await newBuyer(chains, chain, 100n * oneUsdc))
  const rounds: SettledRound[] = []
  for (let n = 0; n < (atOnce === 0 ? 0 : warmUpRounds + roundCount); n++) {
    const round = await runRound(join(folder, `payments-${n}`))
    if (n >= warmUpRounds) rounds.push(round)
  }
  await gateway.stop()
  console.log(JSON.stringify({ msOfCalls, rounds } satisfies SettledResult))

  async function runRound(paymentFile: string): Promise<SettledRound> {
    const payments: string[] = []
    for (let n = 0; n < callsOfRound; n++) payments.push(await buyers[n % atOnce]!.signOffer(offer))
    writeFileSync(paymentFile, `${payments.join('\n')}\n`)
    const { port, host, pathname: path } = new URL(url)
    const [cpuBefore, askedBefore] = [gateway.cpu(), node.asked()]
    const load = { path, host, paymentFile, connections: atOnce }
    const result = await runLoad({ hasWrk: false, nginx: null, canPin: false }, Number(port), load, 120)
    const cpu = gateway.cpu() - cpuBefore
    const asked = node.asked()
    const { requests, refused, broken, firstRefusal, seconds, p50Ms } = result
    if (requests !== callsOfRound || refused > 0 || broken > 0) {
      throw new Error(
        `Expected ${callsOfRound} paid calls, got ${requests}, ${refused} refused, ${broken} broken. The first refusal: ${firstRefusal}`,
      )
    }
    return {
      cpuUs: (cpu / requests) * 1e6,
      callsPerSecond: requests / seconds,
      p50Ms: p50Ms!,
      requestsPerCall: (asked.requests - askedBefore.requests) / requests,
      rpcCallsPerCall: (asked.calls - askedBefore.calls) / requests,
    }
  }
} finally {
  for (const step of undo.reverse()) await step()
}

/** What the link asks for, of the one network that is measured. */
async function offerOf(url: string): Promise<PaymentRequired> {
  const response = await fetch(url)
  await response.body?.cancel()
  const header = response.headers.get('payment-required')!
  const offer = JSON.parse(Buffer.from(header, 'base64').toString()) as PaymentRequired
  const family = name === 'evm' ? 'eip155:' : 'solana:'
  return { ...offer, accepts: offer.accepts.filter(({ network }) => network.startsWith(family)) }
}
