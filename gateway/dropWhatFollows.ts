import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { closeInStages, throwAway } from '../core/http/lingeringClose.ts'
import { answerUnderWay } from './brokenRequest.ts'

/** What of node's connection is used here beyond its types: the parser, and who is told of each head that it has read. */
interface Connection extends Socket {
  parser?: { incoming: IncomingMessage | null; onIncoming: () => number } | null
}

/**
 * Nothing is looked at that comes on a connection behind the request whose answer is its last. The piece that node is reading has
 * thousands of requests perhaps, and node would keep each, and an answer to it, until the last answer is written.
 */
export function dropWhatFollows(socket: Socket): void {
  const { parser } = socket as Connection
  if (parser === undefined || parser === null) return
  let isFirst = true
  parser.onIncoming = () => {
    // Without it the parser drops the body, too, and takes a handshake for an ordinary request.
    parser.incoming = null
    if (isFirst) {
      isFirst = false
      throwRestAway(socket)
    }
    return 0
  }
}

/** Nothing that still comes reaches the parser, and the connection ends behind the answers that it owes. */
export function throwRestAway(socket: Socket): void {
  throwAway(socket)
  // Whoever calls all the same is read from for a while: a reset would take what it has not read of the answer.
  socket.destroySoon = () => closeInStages(socket)
}

/** Whether a connection owes answers, and every request that has begun on it is whole: what comes then is none yet. */
export function isBetweenRequests(socket: Socket): boolean {
  const incoming = (socket as Connection).parser?.incoming
  return answerUnderWay(socket) !== undefined && incoming?.complete === true
}

/** Nothing is looked at any more that comes on a connection, which ends behind all the answers that it owes. */
export function endBehindAnswers(socket: Socket): void {
  throwRestAway(socket)
  const endOrWait = () => {
    const owed = answerUnderWay(socket)
    if (owed === undefined) socket.destroySoon()
    else owed.once('finish', endOrWait)
  }
  endOrWait()
}
