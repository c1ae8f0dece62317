// A node of an EVM chain without activity: it responds to what a gateway requests before a payment. First
// argument: {port}.
import { createServer } from 'node:http'
import { domainSeparator } from '../../adapters/chains/evm/check/authorization.ts'
import { token } from '../../core/evm/token.ts'
import { asset, domain } from './offer.ts'

const { port = 0 } = JSON.parse(process.argv[2] ?? '{}') as { port?: number }
const hex = (value: number) => `0x${value.toString(16)}`
const nowSeconds = () => Math.floor(Date.now() / 1_000)
const block = () => ({
  number: hex(nowSeconds()),
  timestamp: hex(nowSeconds()),
  hash: `0x${'1'.repeat(64)}`,
  baseFeePerGas: hex(1_000_000),
  gasLimit: hex(60_000_000),
  gasUsed: '0x0',
  transactions: [],
})

/** What the token says of itself, by the call's data. */
const responses = new Map([
  [
    token.domainSeparator(asset).data,
    `0x${Buffer.from(domainSeparator({ ...domain, verifyingContract: asset })).toString('hex')}`,
  ],
  [token.decimals(asset).data, `0x${'6'.padStart(64, '0')}`],
])

function responseOf({ method, params }: Question): unknown {
  if (method === 'eth_call') return responses.get((params[0] as { data: string }).data) ?? null
  if (method === 'eth_chainId') return hex(84_532)
  if (method === 'eth_blockNumber') return hex(nowSeconds())
  if (method === 'eth_getBlockByNumber') return block()
  if (method === 'eth_getBalance') return hex(1e18)
  if (method === 'eth_getTransactionCount') return '0x0'
  if (method === 'eth_getCode') return '0x'
  if (method === 'eth_maxPriorityFeePerGas' || method === 'eth_gasPrice') return hex(1_000_000)
  return null
}

interface Question {
  readonly id: unknown
  readonly method: string
  readonly params: readonly unknown[]
}

const server = createServer(async (req, res) => {
  let text = ''
  for await (const chunk of req) text += chunk
  const asked = JSON.parse(text) as Question | Question[]
  const one = (asked: Question) => ({ jsonrpc: '2.0', id: asked.id, result: responseOf(asked) })
  res.setHeader('content-type', 'application/json')
  res.end(JSON.stringify(Array.isArray(asked) ? asked.map(one) : one(asked)))
})
server.listen(port, '127.0.0.1', () => {
  console.log(JSON.stringify({ port: (server.address() as { port: number }).port }))
})
