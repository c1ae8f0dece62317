import { factsOf, networkTitle } from '../../core/domain/network.ts'
import { transferTypes } from '../../core/x402/types.ts'
import { type SignOptions, type Terms, tooLittle } from './terms.ts'
import { type Eip1193, type EvmWallet, faultOf, WalletFault } from './wallet.ts'

/** How far the chain may be behind the gateway's clock, in seconds. The reference client allows the same. */
const CLOCK_SKEW_SECONDS = 600
/** Maximum validity of a signed authorization, in seconds. */
const MAX_VALIDITY_SECONDS = 3_600
/**
 * Error codes for a chain that the wallet does not know. The first is EIP-3326's. Some wallets use EIP-1193's general code
 * instead.
 */
const unknownChainCodes = new Set<unknown>([4902, -32603])

/** RPC URLs that are given to a wallet if it does not know the network. */
const publicRpcUrls: Readonly<Record<string, string>> = {
  'eip155:8453': 'https://mainnet.base.org',
  'eip155:84532': 'https://sepolia.base.org',
}

const domainTypes = [
  { name: 'name', type: 'string' },
  { name: 'version', type: 'string' },
  { name: 'chainId', type: 'uint256' },
  { name: 'verifyingContract', type: 'address' },
]

/**
 * Has an EVM wallet sign one EIP-3009 authorization. It is no transaction and no approval, and costs no gas.
 * @returns the `payload` of the payment
 * @throws {WalletFault}
 */
export async function signEvm(wallet: EvmWallet, terms: Terms, options: SignOptions): Promise<object> {
  const { name } = wallet
  /** Some wallets throw instead of rejecting, or return a value instead of a promise. */
  const provider: Eip1193 = { request: async (args) => wallet.provider.request(args) }
  const { entry, asset, amountAtomic } = terms
  options.onStep('connecting')
  const accounts = await provider.request({ method: 'eth_requestAccounts' }).catch(throwFault(name))
  const from: unknown = Array.isArray(accounts) ? accounts[0] : undefined
  if (typeof from !== 'string' || !/^0x[0-9a-f]{40}$/i.test(from))
    throw new WalletFault('declined', `${name} shared no account with this page.`)
  if (from.toLowerCase() === entry.payTo.toLowerCase())
    throw new WalletFault('unfit', 'This wallet belongs to the seller. Choose another account.')
  options.onPayer?.(from)
  options.onStep('checking')
  await switchTo({ ...wallet, provider }, entry.network)
  await checkBalance(provider, from, terms)

  const { name: domainName, version } = asset.eip712 ?? entry.extra
  const now = options.nowSeconds()
  const authorization = {
    from,
    to: entry.payTo,
    value: entry.amount,
    validAfter: String(now - CLOCK_SKEW_SECONDS),
    validBefore: String(now + Math.min(entry.maxTimeoutSeconds, MAX_VALIDITY_SECONDS)),
    nonce: randomNonce(),
  }
  const typedData = {
    types: { EIP712Domain: domainTypes, ...transferTypes },
    primaryType: 'TransferWithAuthorization',
    domain: {
      name: domainName,
      version,
      chainId: Number(chainIdOf(entry.network)),
      verifyingContract: entry.asset,
    },
    message: { ...authorization, value: amountAtomic.toString() },
  }
  options.onStep('signing')
  const signature = await provider
    .request({ method: 'eth_signTypedData_v4', params: [from, JSON.stringify(typedData)] })
    .catch(throwFault(name))
  if (typeof signature !== 'string' || !/^0x[0-9a-f]+$/i.test(signature))
    throw new WalletFault('failed', `${name} returned no signature.`)
  return { signature, authorization }
}

/** Switches the wallet's network (EIP-3326), after adding it if the wallet does not know it (EIP-3085). */
export async function switchTo({ provider, name }: EvmWallet, network: string): Promise<void> {
  const chainId = `0x${chainIdOf(network).toString(16)}`
  const title = networkTitle(network)
  const current = async () => BigInt((await provider.request({ method: 'eth_chainId' })) as string)
  if ((await current().catch(throwFault(name))) === BigInt(chainId)) return
  try {
    await provider.request({ method: 'wallet_switchEthereumChain', params: [{ chainId }] }).catch((error) => {
      if (!unknownChainCodes.has((error as { code?: unknown }).code)) throw error
      return provider.request({ method: 'wallet_addEthereumChain', params: [descriptionOf(network)] })
    })
    if ((await current()) === BigInt(chainId)) return
  } catch (error) {
    const fault = faultOf(error, name)
    if (fault.kind !== 'declined')
      throw new WalletFault('wrong_network', `${name} did not switch to ${title}. ${fault.message}`)
  }
  throw new WalletFault(
    'wrong_network',
    `${name} is on another network. Switch the wallet to ${title} and try again.`,
  )
}

function descriptionOf(network: string): object {
  const facts = factsOf(network)
  return {
    chainId: `0x${chainIdOf(network).toString(16)}`,
    chainName: facts?.title ?? network,
    nativeCurrency: { name: 'Ether', symbol: 'ETH', decimals: 18 },
    rpcUrls: [publicRpcUrls[network]].filter((url) => url !== undefined),
    blockExplorerUrls: facts ? [new URL(facts.explorerTx).origin] : [],
  }
}

/**
 * Checks the balance through the wallet's own node. If that fails, the payment continues, because the gateway checks the
 * balance too.
 */
async function checkBalance(provider: Eip1193, owner: string, { asset, amountAtomic }: Terms): Promise<void> {
  const data = `0x70a08231${owner.slice(2).toLowerCase().padStart(64, '0')}`
  const answer = await provider
    .request({ method: 'eth_call', params: [{ to: asset.address, data }, 'latest'] })
    .catch(() => undefined)
  if (typeof answer !== 'string' || !/^0x[0-9a-f]{64}$/i.test(answer)) return
  const has = BigInt(answer)
  if (has < amountAtomic) throw tooLittle(has, { asset, amountAtomic })
}

const chainIdOf = (network: string): bigint => BigInt(network.slice('eip155:'.length))

function randomNonce(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(32))
  return `0x${[...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')}`
}

const throwFault =
  (name: string) =>
  (error: unknown): never => {
    throw faultOf(error, name)
  }
