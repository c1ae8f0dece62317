import { bytesWords, uintWord } from '../../../../core/evm/token.ts'
import { RpcRefused } from '../../../../core/rpc/post.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'
import { refuseForNow } from '../../refusals.ts'
import { reasons } from '../reasons.ts'
import { isRevert } from '../rpc/nodes.ts'
import { aggregate3, resultsIn } from '../settle/multicall.ts'
import type { AccountCode } from './accountCode.ts'
import { type ContractSignatureCheck, wrongSignature } from './payment.ts'
import { factoryNotAllowed } from './paymentCalls.ts'
import { readDeployment, type WalletDeployment } from './transferCalls.ts'

/** Selector of isValidSignature(bytes32,bytes), EIP-1271. */
const selector = '0x1626ba7e'
/** A wallet returns this word when it accepts the signature. The word is the same selector, left-aligned. */
const magicWord = selector + '0'.repeat(56)

type ContractVerdict = 'valid' | 'invalid' | 'factory_not_allowed'

interface ContractJudgeOptions {
  readonly rpc: Rpc
  readonly code: AccountCode
  /** Gas limit of the wallet's own check. */
  readonly maxGas: number
  /** Whether this factory (lower case) may be called to deploy a wallet. */
  readonly mayCall: (factory: string) => boolean
}

/**
 * Creates the check of signatures that contract wallets made. The check calls the contract at the payer's address (ERC-1271). If
 * the contract is not deployed yet, the check simulates its deployment first (ERC-6492). It uses only `eth_call` and sends no
 * transaction. The check rejects with {RpcUnreachable} or {RpcRefused} if no node can run it.
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
    const response = await callOrRevert(rpc, call, maxGas * 2)
    if (response === undefined || response === '0x') return false
    const results = resultsIn(response)
    // A call to an address without code succeeds and returns no data, so only the magic word counts.
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

const isMagic = (response: string | undefined): boolean =>
  response !== undefined && response.slice(0, 66).toLowerCase() === magicWord

/** The return data of a contract call, or undefined when it reverts. */
async function callOrRevert(
  rpc: Rpc,
  call: { to: string; data: string },
  gas: number,
): Promise<string | undefined> {
  try {
    const response = await rpc.call('eth_call', { ...call, gas: `0x${gas.toString(16)}` }, 'latest')
    return typeof response === 'string' ? response : undefined
  } catch (error) {
    if (error instanceof RpcRefused && isRevert(error)) return undefined
    throw error
  }
}

interface ContractSignatureOptions {
  readonly rpc: Rpc
  readonly code: AccountCode
  /** Factories that may be called to deploy a wallet (ERC-6492). An empty list allows none. */
  readonly factories: readonly string[]
  /** Gas limit of the wallet's own check. */
  readonly maxGas: number
}

/** Creates the check of payments that contract wallets signed. It sends no transaction. */
export function createContractSignatureCheck(options: ContractSignatureOptions): ContractSignatureCheck {
  const { rpc, code, maxGas } = options
  const factories = new Set(options.factories.map((factory) => factory.toLowerCase()))
  const judge = createContractJudge({ rpc, code, maxGas, mayCall: (factory) => factories.has(factory) })

  return async (authorization, digest) => {
    try {
      switch (await judge(authorization.from, digest, authorization.signature)) {
        case 'valid':
          return undefined
        case 'invalid':
          return wrongSignature(authorization)
        case 'factory_not_allowed':
          return factoryNotAllowed
      }
    } catch {
      return refuseForNow(
        reasons.verifyFault,
        'The gateway cannot verify this signature on chain now. Try again.',
      )
    }
  }
}
