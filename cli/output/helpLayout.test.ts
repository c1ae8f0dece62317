import t from 'tap'
import { layOutHelp } from '../program.ts'

const paragraph =
  'Reads some rows at a time, beside a gateway that runs, and writes down which days it has found right:\nthe next run reads what moved since.'

t.test('a paragraph is broken anew for the columns that there are, and no word is lost', async (t) => {
  for (const columns of [40, 80, 200]) {
    const lines = layOutHelp(paragraph, columns).split('\n')
    t.ok(lines.every((line) => line.length <= Math.min(columns, 100)))
    t.equal(lines.join(' '), paragraph.replaceAll('\n', ' '))
  }
})

t.test('what goes on in an item stands below its words', async (t) => {
  t.equal(
    layOutHelp('  15  another run of the same command is in progress', 34),
    ['  15  another run of the same', '      command is in progress'].join('\n'),
  )
})

t.test('headings, blank lines and lines to copy stay as they are', async (t) => {
  const text = `Examples:\n  tollgate link add https://api.example.com/weather --price 0.01\n\nExit codes:\n  0  paid\n`
  t.equal(layOutHelp(text, 40), text)
})
