/** What nodes decide and hold. */
import type { Send } from '../send.js'
import type { Attributes, CallInput, DecisionView, InspectView, NodesView } from '../api-types.js'

export function decisionRoutes(send: Send) {
  return {
    /** Every node, and the version of the rules it runs. */
    listNodes: () => send({ method: 'GET', has: 'nodes', path: '/nodes' }) as Promise<NodesView>,

    /** Decides a call, and spends. */
    check: (call: CallInput) =>
      send({
        method: 'POST',
        has: 'callers',
        path: '/check',
        body: call,
        isChange: true,
      }) as Promise<DecisionView>,

    /** What `check` would say. Spends nothing. */
    peek: (call: CallInput) =>
      send({ method: 'POST', has: 'callers', path: '/peek', body: call }) as Promise<DecisionView>,

    /** The counters of one caller of one rule, as they are stored. */
    inspect: (rule: string, attributes: Attributes) =>
      send({
        method: 'POST',
        has: 'counters',
        path: '/inspect',
        body: { rule, attributes },
      }) as Promise<InspectView>,
  }
}
