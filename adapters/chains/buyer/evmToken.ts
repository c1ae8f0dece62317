import { type Address, type Hex, parseAbi } from 'viem'
import type { JsonRpc } from './jsonRpc.ts'
import { RpcFailure } from './jsonRpc.ts'

/** What of EIP-20, EIP-712 and EIP-3009 a buyer reads. */
export const tokenAbi = parseAbi([
  'function balanceOf(address) view returns (uint256)',
  'function authorizationState(address,bytes32) view returns (bool)',
  'function DOMAIN_SEPARATOR() view returns (bytes32)',
  'event Transfer(address indexed from, address indexed to, uint256 value)',
  'event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce)',
])

/** `eth_call`, at the latest block unless a number is given. @throws {RpcFailure} also when the answer is no hex data */
export async function callToken(
  rpc: JsonRpc,
  token: Address,
  data: Hex,
  signal: AbortSignal,
  block: Hex | 'latest' = 'latest',
): Promise<Hex> {
  return asHex(await rpc('eth_call', [{ to: token, data }, block], signal), 'eth_call')
}

/** The result of a call that must be hex. @throws {RpcFailure} */
export function asHex(value: unknown, method: string): Hex {
  if (typeof value === 'string' && /^0x[0-9a-fA-F]+$/.test(value)) return value as Hex
  throw new RpcFailure(`The chain's node answered ${method} with something that is not hex.`)
}

/** @throws {RpcFailure} when the node serves another chain than the CAIP-2 network `eip155:<id>` */
export async function assertChainId(rpc: JsonRpc, network: string, signal: AbortSignal): Promise<void> {
  const chainId = BigInt(asHex(await rpc('eth_chainId', [], signal), 'eth_chainId'))
  const wanted = network.slice('eip155:'.length)
  if (chainId.toString() !== wanted) {
    throw new RpcFailure(`The RPC URL serves chain ${chainId}, but the payment is on chain ${wanted}.`)
  }
}
