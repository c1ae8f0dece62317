import type { Test } from 'tap'
import type { Change, Changes } from '../../core/ports/store/changes.ts'

const change: Change = { kind: 'link', username: 'ann', slug: 'weather' }

/** What every implementation of the port Changes keeps. */
export function changesContract(t: Test, make: (t: Test) => Promise<Changes>): void {
  t.test('every listener is notified of a change until it unsubscribes', async (t) => {
    const changes = await make(t)
    const received: string[] = []
    const listener = (name: string) => (change: Change) => received.push(`${name} ${change.username}`)
    const end = changes.subscribe(listener('a'))
    changes.subscribe(listener('b'))
    changes.publish(change)
    t.strictSame(received, ['a ann', 'b ann'])
    end()
    end()
    changes.publish({ kind: 'store', username: 'ben' })
    t.strictSame(received, ['a ann', 'b ann', 'b ben'])
  })

  t.test('a listener that fails does not keep the change from the others', async (t) => {
    const changes = await make(t)
    const received: Change[] = []
    changes.subscribe(() => {
      throw new Error('out of order')
    })
    changes.subscribe((change) => received.push(change))
    t.throws(() => changes.publish(change), AggregateError)
    t.strictSame(received, [change])
  })

  t.test('after close no listener is notified', async (t) => {
    const changes = await make(t)
    const received: Change[] = []
    changes.subscribe((change) => received.push(change))
    await changes.close()
    changes.publish(change)
    t.strictSame(received, [])
  })
}
