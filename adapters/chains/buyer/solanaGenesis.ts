import { type JsonRpc, RpcFailure } from './jsonRpc.ts'

/**
 * CAIP-2 names a Solana chain by the first 32 characters of its genesis hash.
 *
 * @throws {RpcFailure} when the node serves another chain
 */
export async function assertGenesis(rpc: JsonRpc, network: string, signal: AbortSignal): Promise<void> {
  const hash = await rpc('getGenesisHash', [], signal)
  if (typeof hash !== 'string' || `solana:${hash.slice(0, 32)}` !== network) {
    throw new RpcFailure(`The RPC URL serves another chain than ${network}.`)
  }
}
