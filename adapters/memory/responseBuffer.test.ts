import { array, assert, boolean, nat, oneof, property, record } from 'fast-check'
import t from 'tap'
import type { HeldResponse } from '../../core/ports/responseBuffer.ts'
import { createResponseBuffer, READ_MS } from './responseBuffer.ts'

t.test('a sharer may hold as much as it leaves free, and the next one finds room', async (t) => {
  const memory = createResponseBuffer(1_000)
  const [a, more, b] = [memory.open('a'), memory.open('a'), memory.open('b')]
  t.ok(a.grow(400))
  t.ok(more.grow(100), 'half of it, alone')
  t.notOk(more.grow(101))
  t.ok(b.grow(250))
  t.notOk(b.grow(251))
  t.equal(memory.heldBytes, 750)
  for (const one of [a, more, b, b]) one.release()
  t.equal(memory.heldBytes, 0)
  t.notOk(b.grow(1), 'not behind its release')
})

t.test('one answer is held whatever its size while nothing else is', async (t) => {
  const memory = createResponseBuffer(10)
  const [large, small] = [memory.open('a'), memory.open('b')]
  t.ok(large.grow(1_000))
  t.ok(large.grow(2_000))
  t.notOk(small.grow(1))
  large.release()
  t.ok(small.grow(1))
})

t.test(
  'who waits is next by how little its sharer holds, or hears in time that there is no room',
  async (t) => {
    const memory = createResponseBuffer(1_000)
    const [a, b] = [memory.open('a'), memory.open('b')]
    a.grow(450)
    b.grow(270)
    const [ofA, ofB] = [memory.open('a'), memory.open('b')]
    const order: string[] = []
    const waits = [
      Promise.resolve(ofA.growWithin(100, 60_000)).then((isHeld) => void order.push(`a ${isHeld}`)),
      Promise.resolve(ofB.growWithin(100, 60_000)).then((isHeld) => void order.push(`b ${isHeld}`)),
    ]
    t.equal(await ofB.growWithin(500, 1), false)
    a.release()
    await Promise.all(waits)
    t.strictSame(order, ['a true', 'b true'])
    const [late, gone] = [memory.open('a'), memory.open('a')]
    const waiting = gone.growWithin(900, 60_000)
    gone.release()
    t.equal(await waiting, false, 'one that is released waits no more')
    t.equal(await late.growWithin(900, 1), false)
  },
)

t.test(
  'readers who take long are cut off for those who wait, the longest first and no more than it takes',
  async (t) => {
    const memory = createResponseBuffer(1_000)
    const cut: number[] = []
    const held = [0, 1, 2].map((n) => {
      const response = memory.open('a')
      response.grow(150)
      response.leaves(() => {
        cut.push(n)
        response.release()
      })
      return response
    })
    const { makeRoom } = memory as unknown as { makeRoom(nowMs: number): void }
    const late = performance.now() + READ_MS + 1_000
    makeRoom.call(memory, late)
    t.strictSame(cut, [], 'nobody waits')
    const waiting = memory.open('a').growWithin(200, 60_000)
    makeRoom.call(memory, performance.now())
    t.strictSame(cut, [], 'not long yet')
    makeRoom.call(memory, late)
    t.strictSame(cut, [0, 1])
    t.equal(await waiting, true)
    held[2]!.release()
  },
)

const commands = array(
  oneof(
    record({ grow: nat(300), by: nat(30), sharer: nat(3), waits: boolean() }),
    record({ release: nat(30) }),
  ),
  { maxLength: 100 },
)

t.test('whatever happens, no more is held than there is, and all comes back', async (t) => {
  assert(
    property(commands, (all) => {
      const memory = createResponseBuffer(1_000)
      const responses: HeldResponse[] = []
      for (const command of all) {
        if ('grow' in command) {
          const response = (responses[command.by] ??= memory.open(String(command.sharer)))
          if (command.waits) void response.growWithin(command.grow, 0)
          else response.grow(command.grow)
        } else responses[command.release]?.release()
        const bytes = responses.reduce((sum, response) => sum + response.bytes, 0)
        if (memory.heldBytes !== bytes || bytes > 1_000) return false
      }
      for (const response of responses) response?.release()
      return memory.heldBytes === 0
    }),
    { numRuns: 300 },
  )
  t.pass('always')
})

t.test('readers are cut off in the order in which they began, whoever has left before', async (t) => {
  const memory = createResponseBuffer(1_000)
  const cut: number[] = []
  const held = Array.from({ length: 6 }, (_, n) => {
    const response = memory.open('a')
    response.grow(80)
    const begins = performance.now()
    // So that each began at a time of its own.
    while (performance.now() === begins);
    response.leaves(() => {
      cut.push(n)
      response.release()
    })
    return response
  })
  for (const n of [0, 5]) held[n]!.release()
  void memory.open('b').growWithin(900, 60_000)
  const { makeRoom } = memory as unknown as { makeRoom(nowMs: number): void }
  makeRoom.call(memory, performance.now() + READ_MS)
  t.strictSame(cut, [1, 2, 3, 4])
  t.equal(memory.heldBytes, 900)
  const next = memory.open('c')
  const waiting = next.growWithin(900, 60_000)
  makeRoom.call(memory, performance.now() + READ_MS)
  t.equal(cut.length, 4, 'and nobody twice')
  next.release()
  t.equal(await waiting, false)
})
