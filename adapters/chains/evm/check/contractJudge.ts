import { bytesWords, uintWord } from '../../../../core/evm/words.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'
import { RpcRefused } from '../../../../core/rpc/rpcError.ts'
import { isRevert } from '../rpc/isRevert.ts'
import { aggregate3, resultsIn } from '../settle/multicall.ts'
import { readDeployment, type WalletDeployment } from '../settle/payCall.ts'
import type { AccountCode } from './accountCode.ts'

/** isValidSignature(bytes32,bytes): EIP-1271. */
const selector = '0x1626ba7e'
/** What a wallet answers that takes a signature: the selector once more, left-aligned in a word. */
const magicWord = selector + '0'.repeat(56)

export type ContractVerdict = 'valid' | 'invalid' | 'factory_not_allowed'

export interface ContractJudgeOptions {
  readonly rpc: Rpc
  readonly code: AccountCode
  /** Gas that the wallet's own check may use. */
  readonly maxGas: number
  /** Whether this factory (lower case) may be called to make a wallet. */
  readonly mayCall: (factory: string) => boolean
}

/**
 * Makes the judge of signatures that are no plain account's: the address's contract is asked (ERC-1271), also when it
 * would first have to be made by a factory (ERC-6492). All of it is `eth_call`: nothing is sent to the chain.
 *
 * The judge rejects with {RpcUnreachable} or {RpcRefused} when the chain can't be asked.
 *
 * @see https://eips.ethereum.org/EIPS/eip-1271 and https://eips.ethereum.org/EIPS/eip-6492
 */
export function createContractJudge(options: ContractJudgeOptions) {
  const { rpc, code, maxGas, mayCall } = options

  const takes = async (wallet: string, digest: Uint8Array, signature: string): Promise<boolean> => {
    const data = isValidSignatureData(digest, signature)
    return isMagic(await callOrRevert(rpc, { to: wallet, data }, maxGas))
  }

  const wouldTake = async (wallet: string, digest: Uint8Array, made: WalletDeployment): Promise<boolean> => {
    const question = isValidSignatureData(digest, made.innerSignature)
    const call = aggregate3([
      { to: made.factory, data: made.calldata },
      { to: wallet, data: question },
    ])
    const answer = await callOrRevert(rpc, call, maxGas * 2)
    if (answer === undefined || answer === '0x') return false
    const results = resultsIn(answer)
    // A call to an address without code succeeds with no data; only the magic word counts.
    return results[1]?.success === true && isMagic(results[1].data)
  }

  return async (wallet: string, digest: Uint8Array, signature: string): Promise<ContractVerdict> => {
    const deployment = readDeployment(signature)
    if (await code.isContract(wallet)) {
      return (await takes(wallet, digest, deployment?.innerSignature ?? signature)) ? 'valid' : 'invalid'
    }
    if (deployment === undefined) return 'invalid'
    if (!mayCall(deployment.factory)) return 'factory_not_allowed'
    return (await wouldTake(wallet, digest, deployment)) ? 'valid' : 'invalid'
  }
}

const isValidSignatureData = (digest: Uint8Array, signature: string): string =>
  selector + Buffer.from(digest).toString('hex') + uintWord('64') + bytesWords(signature)

const isMagic = (answer: string | undefined): boolean =>
  answer !== undefined && answer.slice(0, 66).toLowerCase() === magicWord

/** What a contract answers, or undefined when it reverts. */
async function callOrRevert(
  rpc: Rpc,
  call: { to: string; data: string },
  gas: number,
): Promise<string | undefined> {
  try {
    const answer = await rpc.call('eth_call', { ...call, gas: `0x${gas.toString(16)}` }, 'latest')
    return typeof answer === 'string' ? answer : undefined
  } catch (error) {
    if (error instanceof RpcRefused && isRevert(error)) return undefined
    throw error
  }
}
