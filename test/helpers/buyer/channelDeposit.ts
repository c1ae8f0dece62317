import { encodeAbiParameters, encodeFunctionData, type Hex, parseAbiParameters } from 'viem'
import batchSettlement from '../../../localnet/evm/artefacts/BatchSettlement.json' with { type: 'json' }
import {
  BATCH_SETTLEMENT_ADDRESS,
  ERC3009_COLLECTOR_ADDRESS,
  type LocalEvm,
} from '../../../localnet/evm/startLocalEvm.ts'

/** One of anvil's accounts, which pays the gas. */
const sender = '0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266'

/** Puts the deposit of an x402 payload into its channel, as a facilitator does. @returns the transaction */
export async function landDeposit(chain: LocalEvm, payload: unknown): Promise<Hex> {
  const { channelConfig, deposit } = payload as {
    channelConfig: object
    deposit: { amount: string; authorization: { erc3009Authorization: Record<string, string> } }
  }
  const { validAfter, validBefore, salt, signature } = deposit.authorization.erc3009Authorization
  const collected = encodeAbiParameters(parseAbiParameters('uint256, uint256, uint256, bytes'), [
    BigInt(validAfter!),
    BigInt(validBefore!),
    BigInt(salt!),
    signature as Hex,
  ])
  const args = [channelConfig, BigInt(deposit.amount), ERC3009_COLLECTOR_ADDRESS, collected]
  const call = { abi: batchSettlement.abi, functionName: 'deposit', args }
  const data = encodeFunctionData(call as unknown as Parameters<typeof encodeFunctionData>[0])
  return await chain.send({ from: sender, to: BATCH_SETTLEMENT_ADDRESS, data })
}
