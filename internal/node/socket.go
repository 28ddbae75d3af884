package node

import "node-partition.io/node-partition/pkg/slices/config"

// ControlSocket is the path at which the service accepts requests of an operator. Only root may
// open it. Metrics and health, which any process may query, have a separate port.
const ControlSocket = config.StateDir + "/monitor/control"
