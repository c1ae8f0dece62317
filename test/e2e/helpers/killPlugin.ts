import { gatewayPlugin } from '../../../core/plugin/gateway.ts'

/** Ends its own process without a word as soon as a paid call comes to a phase: what a power cut does. */
export default gatewayPlugin({
  name: 'kill',
  api: 1,
  options: {
    type: 'object',
    additionalProperties: false,
    required: ['phase'],
    properties: {
      phase: { enum: ['claim', 'forward', 'settle', 'respond'], description: 'Where the process ends.' },
    },
  },
  needs: [],
  setup: ({ phase }) => ({
    route: () => ({
      [phase]: (x: { payment: unknown }) => {
        if (x.payment !== null) process.kill(process.pid, 'SIGKILL')
      },
    }),
  }),
})
