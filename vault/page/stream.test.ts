import t from 'tap'
import { listen } from './app/stream.ts'

t.test('a stream on which nothing comes any more is lost, and opened anew', async (t) => {
  const { fetch } = globalThis
  Object.assign(globalThis, { sessionStorage: { getItem: () => 'vow_x' } })
  t.teardown(() => Object.assign(globalThis, { fetch }))
  const happened: string[] = []
  const canceled: unknown[] = []
  const { promise: again, resolve } = Promise.withResolvers<void>()
  globalThis.fetch = async () =>
    new Response(
      new ReadableStream({
        start(stream) {
          stream.enqueue(new TextEncoder().encode('event: notice\ndata: {"text":"x"}\n\n'))
        },
        cancel: (why) => void canceled.push(why),
      }),
    )
  const end = listen(
    {
      onopen() {
        happened.push('open')
        if (happened.length > 1) resolve()
      },
      onevent: (type) => void happened.push(type),
      onlost: () => void happened.push('lost'),
    },
    20,
  )
  await again
  end()
  t.strictSame(happened.slice(0, 4), ['open', 'notice', 'lost', 'open'])
  t.equal(canceled.length, 1, 'the old one is let go')
})
