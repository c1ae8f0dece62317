import { createJsonRpc, publicRpcUrl, unexpected } from '../../buyer/chains/jsonRpc.ts'
import { requestByFetch } from '../../core/rpc/requestByFetch.ts'
import { createRpc, type Rpc, servedChain } from '../../core/rpc/rpc.ts'
import { decodeStrictBase64 } from '../../core/x402/header.ts'
import type { ChainTable, VaultChain } from '../../vault/effects/assets.ts'
import type { ChargeRpc, PaymentRpc, SolanaPaymentRpc } from '../../vault/effects/payment.ts'

/** A chain of the owner's configuration. */
export interface OwnChain {
  readonly name: VaultChain
  /** URL of its RPC node. */
  readonly rpc?: string | undefined
}

type SolanaAccounts = Awaited<ReturnType<SolanaPaymentRpc['accounts']>>

/**
 * The RPC nodes for payments on Solana.
 *
 * @param solanaRpc the node for mainnet, even if it serves another cluster. It is also the node for Devnet if it serves Devnet.
 *   Default: the public nodes
 */
export function createPaymentRpc(
  solanaRpc: string | undefined,
  chains: ChainTable,
  ownChains: readonly OwnChain[] = [],
): PaymentRpc {
  const given = solanaRpc === undefined ? undefined : nodeAt(solanaRpc)
  return (chain: VaultChain) => {
    const { family, network } = chains.of(chain)
    if (family !== 'solana') return undefined
    const own = ownChains.find(({ name }) => name === chain)
    if (own !== undefined) return own.rpc === undefined ? undefined : nodeAt(own.rpc)
    if (given !== undefined && chain === 'solana') return given
    const url = publicRpcUrl(network)
    const open = url === undefined ? undefined : nodeAt(url)
    return given === undefined || open === undefined ? open : whereServed(given, network, open)
  }
}

/** Time limit of a request that proves what payments cost, in ms. */
const CHARGE_TIMEOUT_MS = 5_000

/**
 * The owner's nodes of EVM chains, which prove what payments cost. A node that serves another chain proves nothing.
 *
 * @param urls by the name of a pinned chain
 */
export function createChargeRpc(
  urls: Readonly<Record<string, string | undefined>>,
  chains: ChainTable,
  ownChains: readonly OwnChain[] = [],
): ChargeRpc {
  const given = new Map([...Object.entries(urls), ...ownChains.map(({ name, rpc }) => [name, rpc] as const)])
  const nodes = new Map<string, Rpc>()
  for (const [name, url] of given) {
    const facts = chains.named(name)
    if (url === undefined || facts?.family !== 'eip155') continue
    const node = createRpc({
      urls: [url],
      chain: servedChain(facts.network),
      sendRequest: requestByFetch(fetch),
      timeoutMs: CHARGE_TIMEOUT_MS,
    })
    nodes.set(name, node)
  }
  return (chain) => nodes.get(chain)
}

/** `given` if it serves this cluster, otherwise `other`. A CAIP-2 id contains the first 32 characters of the genesis hash. */
function whereServed(given: SolanaPaymentRpc, network: string, other: SolanaPaymentRpc): SolanaPaymentRpc {
  const choose = async (signal: AbortSignal): Promise<SolanaPaymentRpc> =>
    `solana:${(await given.genesisHash(signal)).slice(0, 32)}` === network ? given : other
  return {
    genesisHash: async (signal) => (await choose(signal)).genesisHash(signal),
    latestBlockhash: async (signal) => (await choose(signal)).latestBlockhash(signal),
    accounts: async (addresses, signal) => (await choose(signal)).accounts(addresses, signal),
  }
}

function nodeAt(url: string): SolanaPaymentRpc {
  const rpc = createJsonRpc(url)
  const confirmed = { commitment: 'confirmed' }
  return {
    async genesisHash(signal) {
      const hash = await rpc('getGenesisHash', [], signal)
      if (typeof hash !== 'string') throw unexpected('getGenesisHash')
      return hash
    },
    async latestBlockhash(signal) {
      const response = await rpc('getLatestBlockhash', [confirmed], signal)
      const value = (response as { value?: { blockhash?: unknown; lastValidBlockHeight?: unknown } } | null)
        ?.value
      if (typeof value?.blockhash !== 'string' || !Number.isSafeInteger(value.lastValidBlockHeight))
        throw unexpected('getLatestBlockhash')
      return { blockhash: value.blockhash, lastValidBlockHeight: value.lastValidBlockHeight as number }
    },
    async accounts(addresses, signal) {
      const response = await rpc(
        'getMultipleAccounts',
        [addresses, { ...confirmed, encoding: 'base64' }],
        signal,
      )
      const values = (response as { value?: unknown } | null)?.value
      if (!Array.isArray(values) || values.length !== addresses.length)
        throw unexpected('getMultipleAccounts')
      return values.map(accountOf)
    },
  }
}

function accountOf(value: unknown): SolanaAccounts[number] {
  if (value === null || typeof value !== 'object') return undefined
  const { owner, executable, data } = value as { owner?: unknown; executable?: unknown; data?: unknown }
  const text = Array.isArray(data) ? data[0] : undefined
  const bytes = typeof text === 'string' ? decodeStrictBase64(text, 1_000_000) : undefined
  if (typeof owner !== 'string' || bytes === undefined) throw unexpected('getMultipleAccounts')
  return { owner, isExecutable: executable === true, data: bytes }
}
