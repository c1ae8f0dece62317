import t from 'tap'
import { mergeMetrics } from './primary.ts'

t.test('each metric is described once, and each sample says which process it is from', (t) => {
  const text = ['# HELP a_total Counts.', '# TYPE a_total counter', 'a_total{x="1"} 2', 'a_total 3', ''].join(
    '\n',
  )
  const other = ['# HELP b_seconds Time.', '# TYPE b_seconds gauge', 'b_seconds 0.5', ''].join('\n')
  const merged = mergeMetrics([
    { process: 'primary', text: other },
    { process: 'worker-1', text },
    { process: 'worker-2', text },
    { process: 'worker-3', text: '' },
  ])
  t.equal(
    merged,
    [
      '# HELP b_seconds Time.',
      '# TYPE b_seconds gauge',
      'b_seconds{process="primary"} 0.5',
      '# HELP a_total Counts.',
      '# TYPE a_total counter',
      'a_total{process="worker-1",x="1"} 2',
      'a_total{process="worker-1"} 3',
      'a_total{process="worker-2",x="1"} 2',
      'a_total{process="worker-2"} 3',
      '',
    ].join('\n'),
  )
  t.end()
})

t.test('a label value with a brace or a space in it is left as it is', (t) => {
  const text = '# TYPE c counter\nc{path="/a {b}"} 1\n'
  t.match(mergeMetrics([{ process: 'p', text }]), 'c{process="p",path="/a {b}"} 1')
  t.end()
})
