import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { isIPv4 } from 'node:net'
import type { Test } from 'tap'

const types = { A: 1, CNAME: 5, AAAA: 28 } as const
const ttlSeconds = 0

/** Addresses of either family, another name, an error, or `silence`. */
export type Answer = readonly string[] | { readonly cname: string } | 'NXDOMAIN' | 'SERVFAIL' | 'silence'

export interface NameServer {
  /** For `dnsServers`. */
  readonly address: string
  /** `A example.test`, in the order they were asked. */
  readonly questions: readonly string[]
}

/** Starts a name server on a free UDP port that answers as the test says, one question at a time (RFC 1035, section 4). */
export async function startNameServer(
  t: Test,
  respond: (name: string, type: 'A' | 'AAAA') => Answer,
): Promise<NameServer> {
  const questions: string[] = []
  // Room for what a test asks at once: a server in a process of its own would read meanwhile, and lose none of it.
  const socket = createSocket({ type: 'udp4', recvBufferSize: 2 ** 20 })
  socket.on('message', (query, { port, address }) => {
    const { name, type, end } = readQuestion(query)
    const asked = type === types.A ? 'A' : 'AAAA'
    questions.push(`${asked} ${name}`)
    const answer = respond(name, asked)
    if (answer !== 'silence') socket.send(encode(query, end, type, answer), port, address)
  })
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  t.teardown(() => socket.close())
  return { address: `127.0.0.1:${socket.address().port}`, questions }
}

function readQuestion(query: Buffer) {
  const labels: string[] = []
  let at = 12
  for (let length = query[at]!; length > 0; length = query[at]!) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length))
    at += 1 + length
  }
  return { name: labels.join('.').toLowerCase(), type: query.readUInt16BE(at + 1), end: at + 5 }
}

function encode(
  query: Buffer,
  questionEnd: number,
  type: number,
  answer: Exclude<Answer, 'silence'>,
): Buffer {
  const records = recordsOf(type, answer)
  const head = Buffer.alloc(12)
  query.copy(head, 0, 0, 2)
  const status = answer === 'NXDOMAIN' ? 3 : answer === 'SERVFAIL' ? 2 : 0
  // Answer, recursion desired and available.
  head.writeUInt16BE(0x8180 | status, 2)
  head.writeUInt16BE(1, 4)
  head.writeUInt16BE(records.length, 6)
  return Buffer.concat([head, query.subarray(12, questionEnd), ...records])
}

function recordsOf(type: number, answer: Exclude<Answer, 'silence'>): Buffer[] {
  if (typeof answer === 'string') return []
  if ('cname' in answer) return [record(types.CNAME, encodeName(answer.cname))]
  return answer
    .filter((address) => isIPv4(address) === (type === types.A))
    .map((address) => record(type, isIPv4(address) ? encodeV4(address) : encodeV6(address)))
}

function record(type: number, data: Buffer): Buffer {
  const head = Buffer.alloc(12)
  // A pointer to the name in the question.
  head.writeUInt16BE(0xc00c, 0)
  head.writeUInt16BE(type, 2)
  head.writeUInt16BE(1, 4)
  head.writeUInt32BE(ttlSeconds, 6)
  head.writeUInt16BE(data.length, 10)
  return Buffer.concat([head, data])
}

function encodeName(name: string): Buffer {
  const labels = name.split('.').map((label) => Buffer.from([label.length, ...Buffer.from(label)]))
  return Buffer.concat([...labels, Buffer.from([0])])
}

function encodeV4(address: string): Buffer {
  return Buffer.from(address.split('.').map(Number))
}

function encodeV6(address: string): Buffer {
  const [front = '', back] = address.split('::')
  const groups = (text: string | undefined) =>
    text ? text.split(':').map((group) => Number.parseInt(group, 16)) : []
  const [before, after] = [groups(front), groups(back)]
  const all =
    back === undefined ? before : [...before, ...Array(8 - before.length - after.length).fill(0), ...after]
  const data = Buffer.alloc(16)
  all.forEach((group, i) => void data.writeUInt16BE(group, 2 * i))
  return data
}
