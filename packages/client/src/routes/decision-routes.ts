/** Routes of nodes, decisions and counters. */
import type { Send } from '../send.js'
import type {
  Attributes,
  AdminCheckInput,
  CallInput,
  AdminDecisionView,
  InspectView,
  NodesView,
} from '../api-types.js'

export function decisionRoutes(send: Send) {
  return {
    /** Lists every node, and the version of the rules it runs. */
    listNodes: () => send({ method: 'GET', has: 'nodes', path: '/nodes' }) as Promise<NodesView>,

    /** Decides a call, and charges it unless it only passes through gates. */
    check: (call: AdminCheckInput) =>
      send({
        method: 'POST',
        has: 'callers',
        path: '/check',
        body: call,
        isChange: true,
      }) as Promise<AdminDecisionView>,

    /** Returns what `check` would. Charges nothing. */
    peek: (call: CallInput) =>
      send({
        method: 'POST',
        has: 'callers',
        path: '/peek',
        body: call,
      }) as Promise<AdminDecisionView>,

    /** Returns the stored counters of one caller of one rule. */
    inspect: (rule: string, attributes: Attributes) =>
      send({
        method: 'POST',
        has: 'counters',
        path: '/inspect',
        body: { rule, attributes },
      }) as Promise<InspectView>,
  }
}
