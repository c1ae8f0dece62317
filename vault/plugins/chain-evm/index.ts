import { evmTermsFault } from '../../../core/x402/evmTermsFault.ts'
import { chainPlugin } from '../../effects/chainPlugin.ts'
import { assemble } from './assemble.ts'
import { decodeMessage } from './decodeMessage.ts'
import { decodeTransaction } from './decodeTransaction.ts'
import { decodeTypedData } from './decodeTypedData.ts'
import { preparePayment } from './preparePayment.ts'

/** Ethereum, Base and every other EVM chain of the table: transactions, EIP-712 typed data, EIP-191 messages. */
export default chainPlugin({
  name: 'chain-evm',
  api: 1,
  family: 'eip155',
  decodeTransaction,
  decodeTypedData,
  decodeMessage,
  termsFault: evmTermsFault,
  preparePayment,
  assemble,
})
