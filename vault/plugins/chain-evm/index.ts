import { objectToEvmTerms } from '../../../core/x402/objectToEvmTerms.ts'
import { chainPlugin } from '../../effects/chainPlugin.ts'
import { assemble } from './assemble.ts'
import { decodeMessage } from './decodeMessage.ts'
import { decodeTransaction } from './decodeTransaction.ts'
import { decodeTypedData } from './decodeTypedData.ts'
import { preparePayment } from './preparePayment.ts'

/** Ethereum, Base and Base Sepolia: transactions, EIP-712 typed data, EIP-191 messages. */
export default chainPlugin({
  name: 'chain-evm',
  api: 1,
  chains: ['ethereum', 'base', 'base-sepolia'],
  decodeTransaction,
  decodeTypedData,
  decodeMessage,
  objectToTerms: objectToEvmTerms,
  preparePayment,
  assemble,
})
